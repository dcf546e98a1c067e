"""What the stand-in for the shared memory of clusters lets pass, and what not."""

import numpy as np
import pytest

from aotpack.precompile.interpreter.device import (
    HostKernel,
    interpretable,
    launch,
    pointer_type,
    scalar_type,
)
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import MailboxContext, WordContext
from aotpack.render.triton.loops.cluster_reduction import TEMPLATE
from aotpack.render.triton.loops.turns import TEMPLATE as TURNS
from aotpack.runtime.errors import DeviceError

TOGETHER = 4
WORD = WordContext(bits=32, bytes=4, register="r", programs=TOGETHER)
FUNCTIONS = (
    render_function(TEMPLATE, "open_mailbox", MailboxContext(48, (0,))),
    render_function(TEMPLATE, "cluster_wait"),
    render_function(TEMPLATE, "mbarrier_expect"),
    render_function(TEMPLATE, "send", WORD),
    render_function(TEMPLATE, "mbarrier_wait"),
    render_function(TEMPLATE, "receive", WORD),
)
KERNEL = """import triton
import triton.language as tl


{}
@triton.jit
def k(x, y, n):
    part = tl.program_id(0) % 4
    mailbox = open_mailbox()
    cluster_wait()
    for turn in tl.range(0, n):
        stage = mailbox + turn % 2 * 24
        mbarrier_expect(stage + 0, 16)
        send_32(stage + 8, stage + 0, tl.load(x + turn*4 + part))
        mbarrier_wait(stage + 0, turn // 2 % 2)
        total = tl.sum(receive_32(stage + 8), 0)
        tl.store(y + turn*4 + part, total)
""".format("\n\n".join(FUNCTIONS))
"""Sums of four, by four programs, in turn on two stages of a mailbox."""


def sums(old: str = "", new: str = "") -> np.ndarray:
    """What the kernel makes of 0, 1, 2...; with a change of its text."""
    assert old in KERNEL
    function = interpretable("k", KERNEL.replace(old, new) if old else KERNEL)
    types = (pointer_type("int32"), pointer_type("int32"), scalar_type("int32"))
    x = np.arange(7 * TOGETHER, dtype=np.int32)
    y = np.zeros_like(x)
    cells = [x.ctypes.data, y.ctypes.data, 7]
    launch(HostKernel("k", function, types, TOGETHER), (1, 1, 1), cells)
    return y.reshape(7, TOGETHER)


@pytest.mark.row("C:inv23")
def test_programs_that_expect_what_comes_go_on() -> None:
    rows = np.arange(7 * TOGETHER).reshape(7, TOGETHER).sum(1)
    assert np.array_equal(sums(), np.repeat(rows[:, None], TOGETHER, 1))


@pytest.mark.row("C:inv23")
@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("0, 16)", "0, 12)", r"\(0, 0, 0\) expects 12 bytes at 0, 16 come"),
        ("0, 16)", "0, 20)", r"\(0, 0, 0\) expects 20 bytes at 0, 16 come"),
        ("0, 16)", "0, 16 - turn // 3 * 4)", "expects 12 bytes at 24, 16 come"),
        ("        mbarrier_expect(stage + 0, 16)\n", "", "expects 0 bytes at 0, 16 come"),
        ("0, turn // 2 % 2", "0, turn % 2", "waits for parity 1 of the counter 24 in phase 0"),
        ("0, turn // 2 % 2", "0, 0", "waits for parity 0 of the counter 0 in phase 1"),
        (
            "        mbarrier_wait(",
            "        mbarrier_expect(stage + 0, 0)\n        mbarrier_wait(",
            "expects bytes twice",
        ),
        ("send_32(stage + 8", "send_32(mailbox + 8", "overwrites|reads what"),
    ],
)
def test_a_wrong_count_or_parity_is_an_error(old: str, new: str, complaint: str) -> None:
    with pytest.raises(DeviceError, match=complaint):
        sums(old, new)


PARTS = (
    *(
        render_function("device_cluster_attention.py.jinja", name, *sizes)
        for name, *sizes in (("open_parts", 64), ("send_part",), ("receive_part",))
    ),
    *(render_function(TURNS, name) for name in ("programs_arrive", "programs_wait")),
)
PARTS_KERNEL = """import triton
import triton.language as tl


{}
@triton.jit
def k(x, y):
    part = tl.program_id(0) % 4
    parts = open_parts()
    programs_arrive()
    element = tl.arange(0, 4)
    mine = tl.load(x + part*4 + element)
    programs_wait()
    send_part(parts + part*16 + 4*element, mine, element < 3)
    programs_arrive()
    programs_wait()
    if part == 0:
        place = parts + tl.arange(0, 4)[:, None]*16 + 4*tl.arange(0, 2)[None, :]
        tl.store(y + tl.arange(0, 2), tl.sum(receive_part(place), 0))
""".format("\n\n".join(PARTS))
"""Four programs send three numbers each to the first, which adds the first two of all."""


def added(old: str = "", new: str = "") -> np.ndarray:
    """What the kernel makes of 0, 1, 2...; with a change of its text."""
    assert old in PARTS_KERNEL
    text = PARTS_KERNEL.replace(old, new) if old else PARTS_KERNEL
    types = (pointer_type("float32"), pointer_type("float32"))
    x, y = np.arange(16, dtype=np.float32), np.zeros(2, dtype=np.float32)
    kernel = HostKernel("k", interpretable("k", text), types, TOGETHER)
    launch(kernel, (1, 1, 1), [x.ctypes.data, y.ctypes.data])
    return y


def test_the_first_program_reads_what_all_have_sent() -> None:
    assert added().tolist() == [24.0, 28.0]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("    programs_arrive()\n    element", "    element", "that have not arrived"),
        ("    programs_wait()\n    send", "    send", "sends before it has waited for"),
        ("    programs_arrive()\n    programs_wait()\n    if", "    if", "not been sent, or too"),
        ("element < 3", "element < 1", "have not been sent"),
        ("parts + part*16", "parts + part*8", "overwrites what"),
        ("if part == 0", "if part == 1", "reads what was sent to"),
    ],
)
def test_parts_read_too_early_or_by_others_are_errors(old: str, new: str, complaint: str) -> None:
    with pytest.raises(DeviceError, match=complaint):
        added(old, new)
