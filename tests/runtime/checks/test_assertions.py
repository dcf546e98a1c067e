"""Words of assertions on a device that is behind its host."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.runtime import AssertionFailed, Model, load
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.devices.device import Step
from aotpack.runtime.dtypes import DTYPES
from aotpack.stages import Assertion, KernelArg
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import WRAPPER, demo

CHECKED = WRAPPER.replace(
    "        launches=(\n",
    '        launches=(\n            Launch("check", (1, 1, 1), ("x", "low", b*s)),\n'
    '            Launch("check", (1, 1, 1), ("y", "high", b*s)),\n',
).replace("b*s, 0, 1)", "b*s, 2, 3)")
CHECK = (
    "def check(x, word, n):\n    import ctypes\n"
    "    if (floats(x, n) < 0).any():\n        ctypes.c_int32.from_address(word).value = 1\n"
)
ASSERTIONS = (
    Assertion("low", "x is low", "aten._assert_async.msg at demo.py:3: assert x"),
    Assertion("high", "y is low", "aten._assert_async.msg at demo.py:4: assert y"),
)
ENDLESS = CHECKED.replace("import Buffer, Launch", "import Buffer, Launch, Loop, Part").replace(
    '            Launch("scale"',
    "            Loop('x', '', Part((), ()), Part((), ()), Part((), ())),\n"
    '            Launch("scale"',
)
"""The lowest byte of x is the loop's condition, which its body does not change."""
X = np.ones((2, 3), np.float32)


def write_checked(folder: Path, wrapper: str = CHECKED) -> Path:
    """The demo package, which asserts that neither x nor y has a negative element."""
    made = demo(wrapper, assertions=ASSERTIONS)
    kernel, binary = made.rendered.kernels[0], made.binaries[0]
    word = KernelArg("word", DType.INT32, True, is_written=True)
    args = (kernel.args[0], word, kernel.args[-1])
    kernels = (*made.rendered.kernels, replace(kernel, name="check", text=CHECK, args=args))
    code = replace(binary, kernel="check", symbol="check", code=CHECK.encode())
    rendered = replace(made.rendered, kernels=kernels)
    write_package(replace(made, rendered=rendered, binaries=(*made.binaries, code)), folder)
    return folder


class Behind(FakeDevice):
    """Runs what was issued when it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.issued: list[Callable[[], None]] = []
        self.synchronized = 0

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        def issue(stream: int) -> None:
            for step in steps:
                given = [cells[slot] for slot in step.slots]
                self.issued.append(lambda step=step, given=given: step.kernel(*given))

        return issue

    def free(self, address: int) -> None:
        """After all that may use it."""
        free = super().free
        self.issued.append(lambda: free(address))

    def close(self) -> None:
        self.catch_up()
        super().close()

    def synchronize(self, stream: int | None) -> None:
        self.synchronized += 1
        self.catch_up()

    def catch_up(self) -> None:
        """What happens in time, whether somebody waits or not."""
        issued, self.issued = self.issued, []
        for run in issued:
            run()


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def checked(tmp_path: Path, behind: Behind) -> Iterator[Model]:
    with load(write_checked(tmp_path / "m"), behind) as model:
        yield model


def calls(model: Model, *pairs: tuple[float, float]) -> Any:
    """One call after the other, on arrays of one number each; the last one's result."""
    arrays = [
        [DeviceArray.from_numpy(model.device, X * np.float32(n), DTYPES["float32"]) for n in pair]
        for pair in pairs
    ]  # first, because making them waits
    for pair in arrays:
        result = model(*pair)
    return result


@pytest.mark.row("S:H26")
def test_the_first_call_after_the_device_has_come_so_far_tells(
    checked: Model, behind: Behind
) -> None:
    calls(checked, (1, 1))
    waited = behind.synchronized + 2 * len(("x", "y"))  # making the arrays
    calls(checked, (-1, 1), (1, 1))  # nobody knows yet, and nobody waits
    assert behind.synchronized == waited
    behind.catch_up()
    with pytest.raises(AssertionFailed, match=r"calling demo: .*: x is low\n  aten.* at demo.py:3"):
        calls(checked, (1, 1))
    result = calls(checked, (1, 2))
    checked.synchronize()
    np.testing.assert_array_equal(result.numpy(), X * 6)


@pytest.mark.row("S:H26")
def test_whoever_waits_tells_all_that_failed_once(checked: Model) -> None:
    for ask in (checked.synchronize, lambda: checked.state):
        calls(checked, (-1, 1), (1, 1), (1, -1))
        with pytest.raises(AssertionFailed, match=r"x is low\n(.|\n)*y is low"):
            ask()
        ask()
    calls(checked, (1, -1))
    with pytest.raises(AssertionFailed, match="y is low"):
        checked(X, X)  # numpy results are waited for, and the call before is done too
    np.testing.assert_array_equal(checked(X, X), X * 4)


@pytest.mark.row("S:H26")
def test_the_end_tells_and_gives_all_memory_back(tmp_path: Path) -> None:
    package = write_checked(tmp_path / "m")
    device = Behind()
    with pytest.raises(AssertionFailed, match="x is low"), load(package, device) as model:
        calls(model, (-1, 1))
    assert not device.blocks and device.is_closed
    device = Behind()
    with pytest.raises(KeyError), load(package, device) as model:
        calls(model, (-1, 1))
        raise KeyError  # an error of the user's is not hidden
    assert not device.blocks and device.is_closed


@pytest.mark.parametrize("place", [(1, 0), (2, 0)])
def test_a_loop_on_what_was_asserted_ends_with_the_assertion(
    tmp_path: Path, place: tuple[int, int]
) -> None:
    with load(write_checked(tmp_path / "m", ENDLESS), FakeDevice(place)) as model:
        odd = np.full((2, 3), np.uint32(0xBF800001).view(np.float32))  # below -1: loops forever
        for _ in range(3):
            with pytest.raises(AssertionFailed, match="x is low"):
                model(odd, X)
            np.testing.assert_array_equal(model(X, X), X * 4)


@pytest.mark.row("S:H26")
def test_watched_calls_tell_at_once(tmp_path: Path) -> None:
    with load(write_checked(tmp_path / "m"), Behind(), debug="sync") as model:
        with pytest.raises(AssertionFailed, match="x is low"):
            calls(model, (-1, 1))
        np.testing.assert_array_equal(calls(model, (1, 1)).numpy(), X * 4)


@pytest.mark.row("S:H26")
def test_what_asserts_nothing_has_no_shared_memory(package: Path) -> None:
    class Unshared(FakeDevice):
        def alloc_shared(self, size: int) -> int:
            raise AssertionError("nobody needs it")

    with load(package, Unshared()) as model:
        np.testing.assert_array_equal(model(X, X), X * 4)
        model.synchronize()
