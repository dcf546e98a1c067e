"""The first pass after which a model's answer is wrong.

    python tools/bisect_pass.py MODEL [--target cpu|interpreter|sm_90]

The evaluator runs the lowered program, and what each pass of the schedule makes of it, on the
golden inputs; a pass is named when the answer breaks the accuracy law, or the draft is illegal.
It evaluates a model of some million numbers in a minute, and no foreign kernels or calls of torch.
Inside branches and loops the pass that is named is ``schedule_parts``. Where all passes are right,
the kernels of the target answer: a fault then came after the passes.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aotpack.commands.model_options import MODEL_HELP, add_trace_options, load_source, read_options
from aotpack.emit import write_package
from aotpack.ir.interpret.evaluate import IndexOutOfRange, Precision, evaluate
from aotpack.ir.passes import PassRun, verify_each
from aotpack.ir.program import Operation, Program, targets
from aotpack.ir.symbolic.integers import Var
from aotpack.ir.verify.invalid import InvalidProgram
from aotpack.ir.verify.phases import Phase
from aotpack.ir.verify.tiles import InvalidSchedule
from aotpack.pipeline import Build
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime.dtypes import DTYPES, widen
from aotpack.runtime.golden.law import Check, compare, limits_of
from aotpack.runtime.safetensors import Stored
from aotpack.runtime.selftest import verify as verify_package
from aotpack.schedule import PASSES, Partition, schedule
from aotpack.schedule.draft import Draft, Passes
from aotpack.stages import Lowered
from aotpack.target import INTERPRETER, Target

# Ways to compute an answer, and the slack of the law for each. Wide floats have errors far below
# eager's, but bits reinterpreted as integers differ; with the types of the model the evaluator sums
# in another order. An answer that is right in one of the two ways is right.
WAYS = ((Precision.WIDE, 1), (Precision.EXACT, 8))


class WrongAnswer(Exception):
    """The step after which an answer is first wrong, and its error."""

    def __init__(self, step: str, words: str) -> None:
        super().__init__(f"wrong after {step}: {words}")


@dataclass(slots=True)
class Examiner:
    """Compares programs with the golden data; the first that is wrong is raised."""

    lowered: Lowered
    seen: set[tuple[Operation, ...]] = field(default_factory=set)

    def check(self, step: str, program: Program) -> None:
        """Raise WrongAnswer where a program is wrong in every way."""
        if program.operations in self.seen:
            return
        self.seen.add(program.operations)
        words = ""
        for precision, slack in WAYS:
            words = complaint(self.lowered, program, precision, slack)
            if not words:
                return
        raise WrongAnswer(step, words)

    def after(self, run: PassRun) -> None:
        """Check the result of a pass; parts of branches and loops have no golden data."""
        draft = run.state
        assert isinstance(draft, Draft)
        step = f"pass {run.number}, {run.name}" + (draft.arches and f", on {draft.arches}")
        try:
            verify_each(run)
        except (InvalidProgram, InvalidSchedule) as error:
            raise WrongAnswer(step, f"illegal: {str(error).splitlines()[0]}") from error
        if not draft.part:
            self.check(step, computed(draft, is_ordered=draft.phase >= Phase.ORDERED))


def first_wrong(
    lowered: Lowered,
    *,
    deterministic: bool = False,
    partition: Partition | None = None,
    targets: tuple[Target, ...] = (),
    passes: Passes = PASSES,
) -> str:
    """The first wrong step, of the lowering and the passes; nothing if none is wrong."""
    examiner = Examiner(lowered)
    try:
        examiner.check("lowering", lowered.program)
        schedule(
            lowered,
            deterministic=deterministic,
            partition=partition,
            targets=targets,
            passes=passes,
            after=examiner.after,
        )
    except WrongAnswer as error:
        return str(error)
    return ""


def complaint(lowered: Lowered, program: Program, precision: Precision, slack: int) -> str:
    """How the answer of a program breaks the law; nothing for a right one."""
    try:
        checks = answer_checks(lowered, program, precision)
    except KeyError as error:
        return f"{error.args[0]} is read before it is made"
    except IndexOutOfRange as error:
        return str(error)
    return "; ".join(str(check) for check in checks if check.error > slack * check.bound)


def computed(draft: Draft, *, is_ordered: bool) -> Program:
    """The program that the kernels of a draft compute, in their order once that counts."""
    members = [m.operation for kernel in draft.kernels for m in kernel.members]
    if not is_ordered:
        place = {targets(one): number for number, one in enumerate(draft.program.operations)}
        members.sort(key=lambda one: place[targets(one)])
    return replace(draft.program, operations=tuple(members)) if members else draft.program


def answer_checks(lowered: Lowered, program: Program, precision: Precision) -> list[Check]:
    """The answers of a program on the golden inputs, beside the reference."""
    golden, signature = lowered.golden, lowered.signature
    inputs = {name: _array(dtype, shape, data) for name, dtype, shape, data in golden.inputs}
    words = {one.word: np.zeros((), np.int32) for one in signature.assertions}
    weights = {w.name: _array(w.dtype, w.shape, w.data) for w in lowered.weights}
    found = evaluate(program, inputs | words, weights, _sizes(lowered, inputs), precision)
    keys = [f"outputs/{name}" for name, *_ in golden.outputs]
    keys += [f"updates/{name}" for name, *_ in golden.updates]
    names = [*program.outputs, *(name for name, *_ in golden.updates)]
    types = _types(lowered)
    limits = {name: _stored(dtype, shape, data) for name, dtype, shape, data in golden.limits}
    return [
        compare(
            name,
            np.asarray(found[ours]),
            _array(dtype, shape, data),
            types[name],
            error,
            limits_of(limits, {}, key),
        )
        for ours, key, (name, dtype, shape, data), error in zip(
            names, keys, (*golden.outputs, *golden.updates), golden.eager_errors, strict=True
        )
    ]


def _types(lowered: Lowered) -> dict[str, Any]:
    """The type of each result in the model; the reference is wider."""
    specs = (*lowered.signature.inputs, *lowered.signature.outputs)
    types = {one.name: str(one.dtype) for one in (*lowered.weights, *specs)}
    return {name: DTYPES[dtype] for name, dtype in types.items()}


def _sizes(lowered: Lowered, inputs: Mapping[str, Any]) -> dict[str, int]:
    pairs = (
        (size.atom, number)
        for spec in lowered.signature.inputs
        for size, number in zip(spec.shape, inputs[spec.name].shape, strict=True)
    )
    return {size.name: number for size, number in pairs if isinstance(size, Var)}


def _stored(dtype: object, shape: tuple[int, ...], data: Any) -> Stored:
    known = DTYPES[str(dtype)]
    return Stored(known, shape, np.frombuffer(data, known.storage).reshape(shape))


def _array(dtype: object, shape: tuple[int, ...], data: Any) -> np.ndarray:
    stored = _stored(dtype, shape, data)
    return widen(stored.data, stored.dtype)


def target_report(build: Build) -> tuple[bool, str]:
    """Whether the kernels of the one target answer correctly, and their answers."""
    (target,) = build.options.targets
    with tempfile.TemporaryDirectory() as folder:
        write_package(build.precompiled, Path(folder))
        report = verify_package(folder, _device(target, Path(folder)))
    return report.is_passed, str(report)


def _device(target: Target, package: Path) -> InterpreterDevice | str:
    """Texts for GPUs are interpreted."""
    if target == INTERPRETER:
        return InterpreterDevice()
    return InterpreterDevice(package, target) if target.backend == "cuda" else str(target)


def main(arguments: list[str], *, passes: Passes = PASSES, building: type[Build] = Build) -> int:
    """0 when all is right; what builds the model may be given in the place of aotpack's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--target", type=Target.parse, default=INTERPRETER, help="default interpreter"
    )
    add_trace_options(parser)
    options = parser.parse_args(arguments)
    how = read_options(options, targets=(options.target,), golden=math.inf)
    build = building(load_source(options), how)
    wrong = first_wrong(
        build.lowered,
        deterministic=options.deterministic,
        targets=(options.target,),
        passes=passes,
    )
    if wrong:
        print(wrong)
        return 1
    is_right, report = target_report(build)
    print(report)
    print(
        "all passes are right"
        + ("" if is_right else f"; wrong on {options.target}: look behind them")
    )
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
