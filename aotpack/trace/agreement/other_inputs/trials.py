"""One trial of the model and its program on other inputs, compared."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch

from aotpack.errors import TraceError
from aotpack.stages import Signature
from aotpack.trace.agreement.attributes import storage_of, version_of
from aotpack.trace.agreement.exported import AnotherFunction, check_export
from aotpack.trace.agreement.values import difference
from aotpack.trace.agreement.writes import UncountedViews
from aotpack.trace.diagnostics.complaint import users_line
from aotpack.trace.eager import Call

Comparison: TypeAlias = Callable[[Call, Sequence[torch.Tensor], str], None]
_ADVICE_ON_VIEWS = (
    "reshape, flatten and contiguous give a view where they need no copy, as beside a size of 1, "
    "and what is written to it is written to the tensor itself. Accepted is a model that writes to "
    "a tensor for all admitted sizes, or for none: write to y.clone(), or give the dimension a "
    "range without these sizes"
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A comparison ``where`` inputs are others, with the ``advice`` of its refusals.

    ``compare`` takes a call, its results and where it is, to compare further programs.
    """

    where: str
    advice: str
    compare: Comparison

    def check(self, call: Call, is_wrong: Callable[[BaseException], bool]) -> bool:
        """Refuse a departure; False where eager refuses the inputs.

        An error of eager that ``is_wrong`` is one that the program should give too.
        """
        written: list[str] = []
        try:
            with UncountedViews():
                eager = call.run(lambda tensors: _watched(tensors, call.signature, written))
        except TraceError as error:
            cause = error.__cause__
            if cause is None or not is_wrong(cause):
                return False
            text = "\n  at ".join([f"{type(cause).__name__}: {cause}", *users_line(cause)])
            raise TraceError(
                f"exporting {call.signature.name}: the model raises for an admitted size, "
                f"{self.where} {text}\n{self.advice}."
            ) from error
        if written:
            raise AnotherFunction(
                f"exporting {call.signature.name}: {self.where} the model changes "
                f"{' and '.join(written)} in place, and the exported program does not.\n"
                f"{_ADVICE_ON_VIEWS}."
            )
        try:
            self.compare(call, self._exported(call, eager), self.where)
        except AnotherFunction:
            with _without_onednn():
                self.compare(call, self._exported(call, call.run()), self.where)
        return True

    def _exported(self, call: Call, eager: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The results of what was exported; refused where it asserts a size of 2 or more."""
        try:
            return check_export(call, eager, self.where, self.advice)
        except AnotherFunction:
            raise
        except TraceError as error:
            raise TraceError(f"{error}\n{self.advice}.") from error


@contextmanager
def _watched(
    tensors: Mapping[str, torch.Tensor], signature: Signature, written: list[str]
) -> Iterator[None]:
    """Names go to ``written`` of tensors that the block changes and the program leaves."""
    changed = {storage_of(tensors[name]) for name in signature.updates}
    left = {name: x for name, x in tensors.items() if storage_of(x) not in changed}
    versions = {name: version_of(x) for name, x in left.items()}
    given = {spec.name for spec in signature.inputs} & {*left}
    before = {name: left[name].clone() for name in given}
    yield
    for name, x in left.items():
        is_written = version_of(x) != versions[name]
        if is_written or (name in before and difference(before[name], x)):
            written.append(name)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Its convolutions in bfloat16 err for one and two columns, on some processors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield
