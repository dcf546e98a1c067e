"""Times the forms of each launch on the deployment device; compiles nothing.

A plan runs launch by launch on the golden inputs, so every kernel is timed on realistic data
(indices included); for other sizes the golden inputs are repeated or cut. Each launch rotates over
several copies of its tensors, so that the caches are cold.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..checks.assertions import FLAG_BYTES
from ..devices.device import Device, Issue, active
from ..devices.timing import hardware, seconds
from ..errors import AotpackError, ArgumentError, DeviceError
from ..golden.data import read_golden
from ..loading import load
from ..memory.arena import Arena
from ..memory.packing import align, pack
from ..model import Method
from ..plan import Branch, Call, Control, Form, Launch, Loop, Place, Plan, SizeRead, flat
from ..prepare import Prepared, prepare
from ..safetensors import Stored
from ..tuning_file import (
    Times,
    Tuning,
    form_name,
    gain_text,
    merged,
    read_tuning,
    tuning_text,
)
from .tune_sizes import main_sizes, single_sizes

BEYOND_CACHES = 256 << 20  # bytes of all copies: twice the largest L2 cache of today
MOST_COPIES = 128
MOST_SPILLED = 64  # bytes of local memory a thread: the limit of builds
LONGEST_ROUND = 0.05  # seconds for all copies
_SHORTEST = 1e-9  # seconds of a form, when what its run puts back takes as long


class OpenLaunch(NamedTuple):
    """A launch whose form is still open, in a plan for tuning."""

    key: str
    forms: tuple[Form, ...]


def tune(
    package: str | Path | ModuleType,
    device: int | str | Device | None = None,
    *,
    weights: str | Path | Mapping[str, Any] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Tuning:
    """Time all forms of all launches, at the example's sizes and others in their ranges.

    ``weights`` is as for ``load``.
    """
    with load(package, device, weights=weights) as model, active(model.device):
        manifest = model.manifest
        if not manifest.choices:
            raise AotpackError(
                f"tuning {manifest.signature.name}: the package holds one form of every kernel. "
                "Build it with --candidates 2 or more."
            )
        found: dict[str, tuple[Times, ...]] = {}
        for method in model.methods.values():
            if method.manifest.choices:
                _time_method(method, found, report)
        return {(hardware(model.device), model.target): dict(sorted(found.items()))}


def _time_method(
    model: Method, found: dict[str, tuple[Times, ...]], report: Callable[[str], None]
) -> None:
    """Time the launches of a method at its sizes."""
    manifest = model.manifest
    golden = read_golden(manifest.folder / manifest.golden_file, manifest.golden.drawn)
    time_at = partial(_time_plan, model, golden, found, report)
    mains = main_sizes(model, golden)
    for sizes in mains:
        time_at(sizes, again=True)
    for sizes in single_sizes(model, mains[0]):
        time_at(sizes, again=False)


def tune_into(
    file: Path,
    package: Path,
    device: int | str | None,
    weights: Path | None,
    report: Callable[[str], None],
) -> None:
    """Tune, and merge the times into a file with those of other kernels and devices."""
    if file.is_dir():
        raise ArgumentError(f"writing {file}: it is a folder; pass a file to -o")
    if not file.absolute().parent.is_dir():
        raise ArgumentError(f"writing {file}: its folder does not exist; make it, or name another")
    old = read_tuning(file) if file.exists() else {}
    found = tune(package, device, weights=weights, report=report)
    text = tuning_text(merged(old, found))
    try:
        file.write_text(text)
    except OSError as error:
        raise AotpackError(f"writing {file}: {error.strerror}; pass another file to -o") from None
    report(f"{file}: {gain_text(found)}; build with --tuning {file}, or load(tuning=)")


def _time_plan(
    model: Method,
    golden: Mapping[str, Stored],
    found: dict[str, tuple[Times, ...]],
    report: Callable[[str], None],
    sizes: Mapping[str, int],
    *,
    again: bool,
) -> None:
    """Time the launches of a plan; with ``again`` also those already timed at other sizes."""
    plan = model.plan_with(tuple(sizes.values()), _leave_open)
    keys = _keys(plan)
    wanted = keys if again else keys - set(found)
    if not wanted:
        return
    try:
        times = _PlanTimer(model, golden, sizes, plan, wanted, report).run()
    except DeviceError as error:
        report(f"not timed at {_shown(sizes)}: {error}")
        return
    for key, one in times.items():
        found[key] = (*found.get(key, ()), one)


def _leave_open(key: str, *forms: Form) -> Any:
    return OpenLaunch(key, forms)


def _parts(place: Any) -> Iterator["Launch | Call | OpenLaunch | Control"]:
    """The launches at a place of a plan, open ones included; control flow stays whole."""
    if isinstance(place, (Launch, Call, OpenLaunch, Branch, Loop, SizeRead)):
        yield place
    else:
        for part in place:
            yield from _parts(part)


def _keys(plan: Plan) -> set[str]:
    parts = (part for place in plan.launches for part in _parts(place))
    return {part.key for part in parts if isinstance(part, OpenLaunch)}


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "fixed sizes"


class _PlanTimer:
    """Runs a plan launch by launch and times the wanted launches."""

    def __init__(
        self,
        model: Method,
        golden: Mapping[str, Stored],
        sizes: Mapping[str, int],
        plan: Plan,
        wanted: set[str],
        report: Callable[[str], None],
    ) -> None:
        self.model, self.device, self.signature = model, model.device, model.signature
        self.golden, self.sizes, self.plan = golden, sizes, plan
        self.wanted, self.report = wanted, report
        self.found: dict[str, Times] = {}
        self.places: dict[str, tuple[int, int]] = {}  # address and bytes of every tensor

    def run(self) -> dict[str, Times]:
        """The times by key."""
        with ExitStack() as memory:
            self._place_tensors(memory)
            for place in self.plan.launches:
                for part in _parts(place):
                    if isinstance(part, SizeRead):
                        continue  # what waits for sizes has one form
                    if isinstance(part, OpenLaunch) and part.key in self.wanted - set(self.found):
                        self._time(part)
                    form = part.forms[0] if isinstance(part, OpenLaunch) else part
                    with ExitStack() as scratch:
                        self._prepared(form, {}, scratch).issue(0)
                        self.device.synchronize(None)
        return self.found

    # --- memory

    def _place_tensors(self, memory: ExitStack) -> None:
        """Allocate inputs, outputs, intermediates and flags; copy the inputs."""
        for tensor in self.signature.inputs:
            shape = tuple(size.evaluate(self.sizes) for size in tensor.shape)
            stored = np.resize(self.golden[f"inputs/{tensor.name}"].data, shape)
            address = self._alloc(stored.nbytes, memory)
            self.device.copy_in(address, stored.ctypes.data, stored.nbytes, 0)
            self.device.synchronize(None)
            self.places[tensor.name] = (address, stored.nbytes)
        for tensor, known in zip(self.signature.outputs, self.plan.outputs, strict=True):
            size = 0 if known is None else math.prod(known) * tensor.dtype.itemsize
            self.places[tensor.name] = (self._alloc(size, memory), size)
        offsets, total = pack(self.plan.buffers)
        start = self._alloc(total, memory)
        for buffer, offset in zip(self.plan.buffers, offsets, strict=True):
            self.places[buffer.name] = (start + offset, buffer.size)
        for counter in self.plan.counters:
            address = self._alloc(counter.size, memory)
            self.device.clear(address, counter.size)
            self.places[counter.name] = (address, counter.size)
        self.places |= self.model.weight_places()
        for assertion in self.signature.assertions:
            self.places[assertion.word] = (self._alloc(FLAG_BYTES, memory), FLAG_BYTES)

    def _alloc(self, size: int, memory: ExitStack) -> int:
        address = self.device.alloc(max(1, size))
        memory.callback(self.device.free, address)
        return address

    def _prepared(self, form: Place, moved: Mapping[str, int], memory: ExitStack) -> Prepared:
        """Prepare a form as a plan; ``moved`` overrides the addresses of tensors."""
        addresses = {name: address for name, (address, _) in self.places.items()} | dict(moved)
        given = [t.name for t in (*self.signature.inputs, *self.signature.outputs)]
        signed = [addresses.pop(name) for name in given]
        arena: Arena[Prepared] = Arena(self.device)
        memory.callback(arena.free)
        plan = Plan((), self.plan.outputs, (form,))
        kernels = self.model.kernels
        calls = self.model.calls
        prepared = prepare(self.signature, plan, kernels, addresses, arena, self.device, calls)
        prepared.store(signed)
        return prepared

    # --- timing

    def _time(self, launch: OpenLaunch) -> None:
        """Time the forms compiled for this target; those that spill only if all do."""
        forms = [
            form
            for form in launch.forms
            if all(launch.kernel in self.model.kernels for launch in flat(form))
        ]
        forms = [form for form in forms if not self._spills(form)] or forms
        with ExitStack() as memory:
            copies = self._copies(forms, memory)
            prepared = [[self._prepared(form, copy, memory) for copy in copies] for form in forms]
            restore = self._restoring(forms, copies)
            runners = [_round_robin(some, restore) for some in prepared]
            rounds = [[seconds(self.device, one) for one in runners] for _ in range(2)]
            spent = seconds(self.device, restore) if restore else 0.0
        least = (max(min(pair) - spent, _SHORTEST) for pair in zip(*rounds, strict=True))
        times = [one / len(copies) * 1e6 for one in least]
        names = map(form_name, forms)
        took = {name: round(time, 3) for name, time in zip(names, times, strict=True)}
        self.found[launch.key] = Times(dict(self.sizes), took)
        best = min(took, key=lambda name: took[name])
        gain = times[0] / min(times)
        at = f" at {_shown(self.sizes)}" if self.sizes else ""
        self.report(f"{launch.key}{at}: {times[0]:.2f} us, {gain:.2f}x by {best}")

    def _restoring(
        self, forms: Sequence[Form], copies: Sequence[Mapping[str, int]]
    ) -> Issue | None:
        """Puts back what the forms change in place, so that each run reads what a call would."""
        changed: dict[str, None] = {}
        for launch in (launch for form in forms for launch in flat(form)):
            known = self.model.kernels[launch.kernel].kernel.args
            pairs = zip(launch.args, known, strict=True)
            changed |= dict.fromkeys(a for a, k in pairs if k.in_place and isinstance(a, str))

        def issue(stream: int) -> None:
            for copy in copies:
                for name in changed:
                    source, size = self.places[name]
                    self.device.copy(copy[name], source, size, stream)

        return issue if changed else None

    def _spills(self, form: Form) -> bool:
        """True if a kernel of the form spills registers."""
        kernels = [self.model.kernels[launch.kernel].kernel for launch in flat(form)]
        return any(one.binaries[self.model.target].spills > MOST_SPILLED for one in kernels)

    def _copies(self, forms: Sequence[Form], memory: ExitStack) -> list[dict[str, int]]:
        """Copy the forms' tensors until the copies exceed the caches; their addresses."""
        launches = [launch for form in forms for launch in flat(form)]
        names = dict.fromkeys(arg for one in launches for arg in one.args if isinstance(arg, str))
        total = sum(align(self.places[name][1]) for name in names)
        copies = [self._copy(names, total, memory)]
        with ExitStack() as scratch:
            once = self._prepared(forms[0], copies[0], scratch)
            longest = LONGEST_ROUND / seconds(self.device, once.issue)
        wanted = min(MOST_COPIES, -(-BEYOND_CACHES // max(1, total)), int(longest))
        while len(copies) < wanted:
            copies.append(self._copy(names, total, memory))
        self.device.synchronize(None)
        return copies

    def _copy(self, names: Iterable[str], total: int, memory: ExitStack) -> dict[str, int]:
        """Copy tensors with their contents; the new addresses."""
        address = self._alloc(total, memory)
        copy = {}
        for name in names:
            source, size = self.places[name]
            if size:
                self.device.copy(address, source, size, 0)
            copy[name] = address
            address += align(size)
        return copy


def _round_robin(prepared: Sequence[Prepared], restore: Issue | None) -> Issue:
    def issue(stream: int) -> None:
        if restore is not None:
            restore(stream)
        for one in prepared:
            one.issue(stream)

    return issue
