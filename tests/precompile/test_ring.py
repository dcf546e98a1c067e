"""What Triton must make of kernels with a ring, and what the stand-in for their memory refuses."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.precompile.columns import check_columns
from aotpack.precompile.interpreter.device import HostKernel, interpretable, launch, pointer_type
from aotpack.precompile.request import Request
from aotpack.precompile.spills import settle
from aotpack.precompile.worker import compile_request
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import RingContext, VectorContext
from aotpack.render.triton.loops.row_pipeline import TEMPLATE
from aotpack.runtime.errors import DeviceError
from tests.precompile.test_spills import form

FUNCTIONS = (
    render_function(TEMPLATE, "open_ring", RingContext(start=1024, line=128)),
    *(
        render_function(TEMPLATE, f"async_{name}")
        for name in ("copy", "commit_group", "wait_group")
    ),
    render_function(TEMPLATE, "load_shared", VectorContext("float32", "tl.float32", 4, "r,r,r,r")),
)
KERNEL = """import triton
import triton.language as tl


{}
@triton.jit
def k(x, y):
    ring = open_ring(64)
    lane = tl.arange(0, 64)*4
    places = lane[None, :] + tl.arange(0, 4)[:, None]
    for number in range(2):
        async_copy(ring + number*1024, x + number*256 + lane, lane < 252)
        async_commit_group()
    for number in tl.static_range(4):
        async_wait_group(1)
        block = load_shared_float32(ring + number % 2 * 1024)
        tl.store(y + number*256 + places, block + tl.sum(block, None)*0, mask=places < 252)
        later = number + 2
        async_copy(ring + later % 2 * 1024, x + later*256 + lane, (lane < 252) & (later < 4))
        async_commit_group()
""".format("\n\n".join(FUNCTIONS))
"""A copy of four blocks through two slots; the last vector of each is missing."""


def copied(old: str = "", new: str = "") -> np.ndarray:
    """The blocks as they come out; with a change of the kernel's text."""
    assert old in KERNEL
    kernel = interpretable("k", KERNEL.replace(old, new) if old else KERNEL)
    x = np.arange(1, 1025, dtype=np.float32)
    y = np.zeros_like(x)
    types = pointer_type("float32"), pointer_type("float32")
    launch(HostKernel("k", kernel, types), (1, 1, 1), [x.ctypes.data, y.ctypes.data])
    return y.reshape(4, 256)


def test_blocks_come_through_the_ring_as_they_are() -> None:
    blocks = np.arange(1, 1025, dtype=np.float32).reshape(4, 256)
    found = copied("+ tl.sum(block, None)*0", "")
    assert np.array_equal(found[:, :252], blocks[:, :252]) and not found[:, 252:].any()


@pytest.mark.row("C:B16")
@pytest.mark.parametrize(
    "change",
    [("async_wait_group(1)", "async_wait_group(2)"), ("        async_wait_group(1)\n", "")],
)
def test_a_block_that_is_not_awaited_is_not_read(change: tuple[str, str]) -> None:
    with pytest.raises(DeviceError, match="reads what is still being copied"):
        copied(*change)


def test_vectors_that_were_not_copied_spoil_what_depends_on_them() -> None:
    assert np.isnan(copied()).any()


def request(text: str = KERNEL, ring_bytes: int = 2048) -> Request:
    return Request(
        name="k",
        arch=90,
        types=(("x", "*fp32"), ("y", "*fp32")),
        multiples=((0, 16), (1, 16)),
        num_warps=2,
        num_stages=1,
        cluster_size=1,
        ring_bytes=ring_bytes,
        starts_early=False,
        text=text,
    )


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def test_a_launch_has_a_ring_behind_what_triton_takes() -> None:
    """And each thread reads what it copied itself: the compiling process looks."""
    assert compile_request(request()).shared == 1024 + 2048


def test_a_ring_needs_its_room_before_it() -> None:
    sorted_by_place = "tl.cumsum(tl.reshape(tl.trans(block), [256]), 0)"
    wide = KERNEL.replace("tl.sum(block, None)*0", f"tl.sum({sorted_by_place}, 0)")
    with pytest.raises(ValueError, match="bytes of shared memory, before its ring"):
        compile_request(request(wide))


GOOD = "\n".join(
    (
        "#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32],"
        " warpsPerCTA = [1, 2], order = [1, 0]}>",
        "#blocked1 = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32],"
        " warpsPerCTA = [2], order = [0]}>",
        'tt.elementwise_inline_asm "cp.async.cg.shared.global [$1], [$2], 16;" %a, %b :'
        " tensor<64xi32, #blocked1>, tensor<64x!tt.ptr<f32>, #blocked1>"
        " -> tensor<64xi32, #blocked1>",
        'tt.elementwise_inline_asm "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4];" %c :'
        " tensor<4x64xi32, #blocked> -> tensor<4x64xf32, #blocked>",
    )
)


def test_each_thread_has_a_column() -> None:
    check_columns(GOOD, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threadsPerWarp = [1, 32]", "threadsPerWarp = [4, 8]"),
        ("warpsPerCTA = [2]", "warpsPerCTA = [1]"),
        ("sizePerThread = [1], ", "sizePerThread = [2], "),
        ("sizePerThread = [1, 1], ", "sizePerThread = [1, 2], "),
        ("4x64x", "4x128x"),
        ("-> tensor<64xi32, #blocked1>", "-> tensor<64xi32, #linear>"),
    ],
)
def test_a_thread_with_another_column_is_refused(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match="threads would read from shared memory what others copy"):
        check_columns(GOOD.replace(old, new), 2)


def test_kernels_with_a_ring_keep_their_threads() -> None:
    asked = []

    def compile_some(requests):  # type: ignore[no-untyped-def]
        asked.extend(requests)
        return {request: form(request, 1000) for request in requests}

    settle([request()], compile_some)
    assert [one.num_warps for one in asked] == [2]
