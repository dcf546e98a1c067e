"""The weights of a loaded model: one device allocation, filled from a file or from the caller."""

import ctypes
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ..arrays.complex_views import pairs_of_weight
from ..arrays.frameworks import Frameworks
from ..checks.changes import Changed, changed_at
from ..checks.guards import describe, remedy_of_weight
from ..checks.memory import has_memory
from ..devices.block import Block
from ..devices.device import Device, is_host
from ..dtypes import Array, is_accepted
from ..errors import ArgumentError, WeightError
from ..files.chunks import read_chunks
from ..manifest import Manifest
from ..plan import Plan
from ..safetensors import Stored, TensorFile
from ..tensors import Weight
from .derived import Derivation, DerivedWeights
from .packing import align
from .staged import StagedWeights
from .streaming import Piece, stream
from .weight_names import fault_of_names, fault_of_shared, plain_names, some

_DENSE = "torch.strided"
_HOST_PLACES = (1, 3)  # pageable and pinned, in DLPack's numbering


class _Source(NamedTuple):
    """Bytes to bind; ``owner`` keeps them alive."""

    address: int
    size: int
    place: tuple[int, int]
    owner: Any


class Weights:
    """The address of each weight on the device, and the set of bound weights."""

    def __init__(
        self, manifest: Manifest, device: Device, program: Derivation | None = None
    ) -> None:
        weights = manifest.weights
        self._model, self._device, self._weights = manifest.signature.name, device, weights
        self._unused, self._updates = manifest.unused, manifest.changed
        self._by_name = {
            name: weight for weight in weights for name in (weight.name, *weight.names)
        }
        self._bound: set[str] = set()
        self._offsets: dict[str, int] = {}
        self._program = program
        self._stale = set(program.reads if program else ())  # what derived ones do not know yet
        brief = () if is_host(device) else tuple(weight for weight in weights if weight.staged)
        self._staged = StagedWeights(brief, device)
        self._kept_bytes = 0
        for weight in weights:
            if weight.name not in self._staged:
                self._offsets[weight.name] = self._kept_bytes
                self._kept_bytes += align(weight.size)
        self._groups: list[list[Weight]] = []
        for weight in weights:
            if weight.follows and self._groups:
                self._groups[-1].append(weight)
            else:
                self._groups.append([weight])
        made = program.makes if program else frozenset[str]()
        derived = [weight for weight in manifest.derived if weight.name in made]
        self._derived = DerivedWeights(derived, device)
        self.total = self._kept_bytes + self._derived.total
        self._block: Block | None = None
        self._mapped: dict[str, _Source] = {}  # used in place in a mapped file
        self._factors: dict[str, Stored] = {}  # of adapters, as the package was built
        self._state: Changed | None = None  # as long as nothing is bound anew

    def bytes_of(self, names: Iterable[str]) -> int:
        """The device bytes of these weights and derived ones, once the weight program has run."""
        sizes = {weight.name: weight.size for weight in self._weights}
        kept = sum(align(sizes[name]) for name in {*names} & self._offsets.keys())
        return kept + self._derived.bytes_of(names)

    def keep_factors(self, factors: Mapping[str, Stored]) -> None:
        """The factors of adapters by name, which a strict binding without them puts back."""
        self._factors = dict(factors)

    @property
    def block(self) -> Block | None:
        """The device memory, with that of the state; None if there is none."""
        return self._block

    @property
    def missing(self) -> list[str]:
        """The unbound weights."""
        return [weight.name for weight in self._weights if weight.name not in self._bound]

    def addresses(self) -> dict[str, int]:
        """The address of every weight by its first name; all must have been bound."""
        missing = self.missing
        if missing:
            raise WeightError(
                f"calling {self._model}: {len(missing)} of {len(self._weights)} weights have not "
                f"been given: {some(missing)}. Call bind_weights(...) first, or load with "
                "weights=PATH; a command line takes --weights FILE."
            )
        return self._addresses()

    def _addresses(self) -> dict[str, int]:
        start = self._block.address if self._block else 0
        own = {name: start + offset for name, offset in self._offsets.items()}
        own |= {name: source.address for name, source in self._mapped.items()}
        return own | self._staged.addresses() | self._derived.addresses()

    def places(self) -> dict[str, tuple[int, int]]:
        """The address of every weight, and the bytes up to the end of those that follow it."""
        addresses = self.addresses()
        found: dict[str, tuple[int, int]] = {}
        for group in self._groups:
            last = group[-1]
            if last.name in self._staged:
                continue
            end = addresses[last.name] + last.size
            for weight in group:
                found[weight.name] = (addresses[weight.name], end - addresses[weight.name])
        return found | self._derived.places()

    def bind(
        self,
        given: Mapping[str, Any],
        frameworks: Frameworks,
        *,
        strict: bool,
        digests: Sequence[str] = (),
        is_own: bool = False,
    ) -> None:
        """Copy the given values to the device; all are checked before the first is copied.

        A CPU uses tensors in place in a mapped file, whose chunks have the ``digests``. Once no
        weight is missing, the weight program computes what depends on those that changed.
        Strictly, factors of adapters that are not given are those of the build again.
        """
        given = plain_names(given, {*self._by_name, *self._unused})
        chosen = self._choose(given, strict=strict, is_own=is_own)
        sources = {weight.name: self._read(weight, value, frameworks) for weight, value in chosen}
        self._check_ties(given, sources, frameworks)
        factors = self._factors_beside(sources.keys()) if strict else {}
        sources |= {name: self._read(w, one, frameworks) for name, (w, one) in factors.items()}
        sources = {name: self._apart(source) for name, source in sources.items()}
        plan = self._affected(sources.keys())
        self._unbind(sources.keys())
        if isinstance(given, TensorFile) and not is_host(self._device):
            self._stream(given, chosen, digests)
            for weight, _ in factors.values():
                self._copy(weight, sources[weight.name])
        else:
            if isinstance(given, TensorFile) and digests:
                read_chunks(given.path, digests, _nothing, given.identity)
            for group in self._groups:
                self._place(group, sources)
        self._staged.remember(chosen, given, digests)
        self._device.synchronize(None)
        self._staged.present |= sources.keys()
        if plan is not None:
            self._derive(plan)
        self._bound.update(sources)
        self._state = None  # another thread may have asked meanwhile

    def _unbind(self, names: Set[str]) -> None:
        """An interrupt from here on leaves them to be bound again."""
        self._state = None
        self._bound -= names
        self._stale |= names
        self._staged.present -= names

    def _affected(self, given: Set[str]) -> Plan | None:
        """What to compute once these are bound, if none is missing then."""
        if self._program is None or len(self._bound | given) < len(self._weights):
            return None
        plan = self._program.affected(self._stale | given)
        needed = sorted(name for name in self._program.reads_of(plan) if name in self._staged)
        lost = self._staged.lost(name for name in needed if name not in given)
        if lost:
            raise self._refused(
                f"{some(lost)} not given: what the model computes from them and the given weights "
                "is computed again, and they were freed after the last time. Give them too"
            )
        return plan

    def _derive(self, plan: Plan) -> None:
        """Compute derived weights, then free those that nothing else reads."""
        assert self._program is not None
        needed = self._program.reads_of(plan)
        self._staged.read_again(sorted(name for name in needed if name in self._staged))
        self._derived.reserve()
        if any(plan.launches):
            self._program.run(plan, self._addresses())
        self._stale.clear()
        self._staged.release()

    def state(self) -> Changed:
        """The weights that calls change, with their addresses; all must have been bound."""
        state = self._state
        if state is None:  # every call asks
            changed = [weight for weight in self._weights if weight.name in self._updates]
            addresses = self.addresses() if changed else {}
            state = self._state = changed_at((one, addresses[one.name]) for one in changed)
        return state

    def free(self) -> None:
        """Free the device memory, once nobody else has its ``block``."""
        self._block = self._state = None
        self._mapped.clear()
        self._derived.free()
        self._staged.release()

    def _place(self, group: Sequence[Weight], sources: Mapping[str, _Source]) -> None:
        """Use a group of contiguous weights in place in a mapped file, or copy them."""
        given = [weight for weight in group if weight.name in sources]
        if given and len(given) == len(group) and self._is_usable(group, sources):
            self._mapped.update((weight.name, sources[weight.name]) for weight in group)
            return
        for weight in group if given else ():
            source = sources.get(weight.name) or self._mapped.get(weight.name)
            if source is not None:
                self._copy(weight, source)
            self._mapped.pop(weight.name, None)

    def _is_usable(self, group: Sequence[Weight], sources: Mapping[str, _Source]) -> bool:
        """True if kernels only read these tensors of a file and their alignment allows that."""
        if any(weight.name in self._updates for weight in group):
            return False
        address = sources[group[0].name].address
        for weight in group:
            source = sources[weight.name]
            if not isinstance(source.owner, Stored) or source.address != address:
                return False
            if address % weight.dtype.itemsize:
                return False
            address += weight.size
        return is_host(self._device)

    def _apart(self, source: _Source) -> _Source:
        """A copy of what lies in the model's own state, which another weight may overwrite."""
        own = self._block
        if own is None or not source.size:
            return source
        if not own.address - source.size < source.address < own.address + own.size:
            return source
        block = Block(self._device, source.size)
        self._device.copy(block.address, source.address, source.size, 0)
        return _Source(block.address, source.size, self._device.place, block)

    def _copy(self, weight: Weight, source: _Source) -> None:
        copy = self._device.copy_in if source.place[0] in _HOST_PLACES else self._device.copy
        if weight.size:
            copy(self._own(weight), source.address, weight.size, 0)

    def _own(self, weight: Weight) -> int:
        """The place of a weight in the device's memory, which is allocated when first needed."""
        if weight.name in self._staged:
            return self._staged.address(weight.name)
        if self._block is None:
            self._block = Block(self._device, self._kept_bytes)
        return self._block.address + self._offsets[weight.name]

    def _stream(
        self, file: TensorFile, chosen: Iterable[tuple[Weight, Stored]], digests: Sequence[str]
    ) -> None:
        """Copy tensors of a file; if that fails, they count as not given."""
        pieces = [
            Piece(stored.begin, stored.begin + stored.data.nbytes, self._own(weight))
            for weight, stored in chosen
        ]
        names = {weight.name for weight, _ in chosen} & self._bound
        self._bound -= names
        stream(self._device, file.path, digests, pieces, file.identity)
        self._bound |= names

    def _choose(
        self, given: Mapping[str, Any], *, strict: bool, is_own: bool
    ) -> list[tuple[Weight, Any]]:
        fault = fault_of_names(given, [*self._by_name, *sorted(self._unused)])
        chosen: dict[str, tuple[Weight, str]] = {}
        for name in given if isinstance(given, Mapping) else ():
            if name in self._by_name:
                weight = self._by_name[name]
                chosen.setdefault(weight.name, (weight, name))
        lacking = [w.name for w in self._weights if w.name not in chosen and not w.constant]
        if fault:
            also = f"; {some(lacking)} not given" if strict and lacking and chosen else ""
            raise self._refused(f"{fault}{also}")
        if strict and lacking:
            raise self._refused(
                f"{some(lacking)} not given ({len(lacking)} of {len(self._weights)} are missing); "
                "give them too, or bind_weights(weights, strict=False) of a loaded model keeps "
                "those that it has"
            )
        if not is_own and (fault := fault_of_shared([weight for weight, _ in chosen.values()])):
            raise self._refused(fault)
        return [(weight, given[name]) for weight, name in chosen.values()]

    def _factors_beside(self, given: Set[str]) -> dict[str, tuple[Weight, Stored]]:
        """The factors of the build that are not among the given weights."""
        return {
            name: (self._by_name[name], one)
            for name, one in self._factors.items()
            if name not in given
        }

    def _check_ties(
        self, given: Mapping[str, Any], sources: Mapping[str, _Source], frameworks: Frameworks
    ) -> None:
        """What is given for several names of one weight has the same bits."""
        first: dict[str, str] = {}
        for name in given:
            if name not in self._by_name:
                continue
            weight = self._by_name[name]
            other = first.setdefault(weight.name, name)
            if name == other:
                continue
            source = self._read(weight, given[name], frameworks)
            if not self._are_equal(sources[weight.name], source):
                raise self._refused(
                    f"{other!r} and {name!r} are one tensor in this model and were given as two "
                    "that differ; give one of them"
                )

    def _are_equal(self, one: _Source, other: _Source) -> bool:
        if (one.address, one.place) == (other.address, other.place):
            return True
        return bool(np.array_equal(self._bytes_of(one), self._bytes_of(other)))

    def _bytes_of(self, source: _Source) -> Array:
        """A tensor's bytes on the host."""
        if source.place[0] in _HOST_PLACES:
            memory = (ctypes.c_uint8 * source.size).from_address(source.address)
            return np.ctypeslib.as_array(memory)
        found = np.empty(source.size, np.uint8)
        self._device.copy_out(found.ctypes.data, source.address, source.size, 0)
        self._device.synchronize(None)
        return found

    def _read(self, weight: Weight, value: Any, frameworks: Frameworks) -> _Source:
        if isinstance(value, Stored):
            if value.is_complex and not weight.pairs:
                raise self._refused(f"{weight.name!r} is complex; accepted: {weight.type_text()}")
            self._check(weight, str(value.dtype), value.shape, "file")
            address = value.data.__array_interface__["data"][0]
            return _Source(address, weight.size, (1, 0), value)
        layout = "nested" if getattr(value, "is_nested", False) else _layout_of(value)
        if layout != _DENSE:
            raise self._refused(f"{weight.name!r} is a tensor of layout {layout}; give a dense one")
        if hasattr(value, "contiguous"):
            value = value.contiguous()
        if weight.pairs:
            value = pairs_of_weight(value, weight.dtype)
        try:
            framework = frameworks.of(value)
            (address,), facts, owner = framework.read((value,), 0)
            (seen,) = framework.seen(facts, (value,))
        except ArgumentError as error:
            raise self._refused(f"{weight.name!r}: {error}") from error
        self._check(weight, seen.dtype, seen.shape, seen.framework)
        if seen.place[0] not in _HOST_PLACES and seen.place != self._device.place:
            raise self._refused(
                f"{weight.name!r} is on {describe(seen.place)}; accepted: cpu or "
                f"{describe(self._device.place)}"
            )
        if not seen.contiguous:
            raise self._refused(f"{weight.name!r} is not contiguous; give a contiguous copy")
        if seen.needs_copy:
            value = framework.copied((value,), ((0, weight.dtype, ()),), 0)[0]
            (address,), _, owner = framework.read((value,), 0)
        if weight.size and not has_memory(value, address):
            raise self._refused(f"{weight.name!r} has a shape but no memory; give its elements")
        return _Source(address, weight.size, seen.place, owner)

    def _check(self, weight: Weight, dtype: str, shape: tuple[int, ...], framework: str) -> None:
        if shape != weight.shape or not is_accepted(dtype, weight.dtype, framework):
            raise self._refused(
                f"{weight.name!r} is {dtype}{list(shape)}; accepted: {weight.type_text()}. "
                f"{remedy_of_weight(weight, dtype, shape, framework)}"
            )

    def _refused(self, reason: str) -> WeightError:
        return WeightError(f"binding weights to {self._model}: {reason}.")


def _layout_of(value: Any) -> str:
    """How torch stores a tensor; all others are dense."""
    layout = str(getattr(value, "layout", _DENSE))
    return layout if layout.startswith("torch.") else _DENSE


def _nothing(begin: int, chunk: Any) -> None:
    """What a reading does that only checks."""
