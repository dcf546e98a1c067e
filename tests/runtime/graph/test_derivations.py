"""What weight programs of several methods compute alike is computed once, and nothing else is."""

from typing import Any

import pytest

from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.errors import PackageError
from aotpack.runtime.graph.derivations import joined
from aotpack.runtime.manifest import Kernel, KernelArg
from aotpack.runtime.plan import Buffer, Call, Launch, Plan
from aotpack.runtime.sizes import Size
from aotpack.runtime.tensors import DerivedWeight

F32 = DTYPES["float32"]


def kernel(name: str, *written: bool) -> Kernel:
    args = tuple(KernelArg(F32, True, one) for one in written)
    return Kernel(name, args, "kernels/source/k.py", Size(0), Size(0), {})


KERNELS = {
    "copy": kernel("copy", False, True),
    "twice": kernel("twice", False, True),
    "split": kernel("split", False, True, True),
}


def weight(name: str, size: int = 16) -> DerivedWeight:
    return DerivedWeight(name, F32, (4,), size)


def plan(*launches: Any, buffers: tuple[str, ...] = ()) -> Plan:
    own = tuple(Buffer(name, 16, 0, len(launches) - 1) for name in buffers)
    return Plan(own, (), tuple(Launch(k, (1, 1, 1), args) for k, args in launches))


def join(a: Plan, b: Plan, *derived: DerivedWeight) -> Any:
    return joined({"a": (a, derived), "b": (b, derived)}, KERNELS)


def test_a_chain_of_equal_launches_runs_once() -> None:
    one = plan(("copy", ("w", "t")), ("twice", ("t", "d")), buffers=("t",))
    other = plan(("copy", ("w", "u")), ("twice", ("u", "d")), buffers=("u",))
    found = join(one, other, weight("d"))
    assert found.names == {"a": {"d": "a.d"}, "b": {"d": "a.d"}}
    assert [one.name for one in found.derived] == ["a.d"]
    launches = [launch for place in found.plan.launches for launch in place]
    assert [launch.args for launch in launches] == [("w", "a/t"), ("a/t", "a.d")]
    assert [buffer.first for buffer in found.plan.buffers] == [0, 2]


@pytest.mark.parametrize(
    ("second", "size"),
    [(("copy", ("v", "d")), 16), (("twice", ("w", "d")), 16), (("copy", ("w", "d")), 32)],
    ids=["of another weight", "by another kernel", "in other memory"],
)
def test_what_differs_stays_apart(second: Any, size: int) -> None:
    found = joined(
        {
            "a": (plan(("copy", ("w", "d"))), (weight("d"),)),
            "b": (plan(second), (weight("d", size),)),
        },
        KERNELS,
    )
    assert found.names == {"a": {"d": "a.d"}, "b": {"d": "b.d"}}
    assert [len(place) for place in found.plan.launches] == [1, 1]


def test_a_launch_with_one_new_result_stays_whole() -> None:
    """The result of ``split`` that the first method has is written again, with equal values."""
    first = plan(("split", ("w", "d", "e")))
    second = plan(("split", ("w", "d", "e")), ("twice", ("e", "f")))
    derived = weight("d"), weight("e"), weight("f")
    found = joined({"a": (first, derived[:2]), "b": (second, derived)}, KERNELS)
    assert found.names["b"] == {"d": "a.d", "e": "a.e", "f": "b.f"}
    launches = [launch.args for place in found.plan.launches for launch in place]
    assert launches[-1] == ("a.e", "b.f") and ("w", "a.d", "a.e") in launches


def test_memory_that_holds_two_intermediates_keeps_both() -> None:
    """``t`` is written twice; what it holds last is the history of ``d``."""
    twice = plan(
        ("copy", ("w", "t")),
        ("twice", ("t", "e")),
        ("copy", ("v", "t")),
        ("twice", ("t", "d")),
        buffers=("t",),
    )
    once = plan(("copy", ("w", "t")), ("twice", ("t", "d")), buffers=("t",))
    found = joined({"a": (twice, (weight("e"), weight("d"))), "b": (once, (weight("d"),))}, KERNELS)
    assert found.names == {"a": {"e": "a.e", "d": "a.d"}, "b": {"d": "a.e"}}


def test_calls_of_torch_are_refused() -> None:
    damaged = Plan((), (), (Call("f", ()),))
    with pytest.raises(PackageError, match="a weight program has a Call; accepted are launches"):
        join(damaged, damaged)
