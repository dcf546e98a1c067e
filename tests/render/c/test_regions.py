"""Loops of C text: each point is met once, however the loop is cut into blocks."""

import ctypes

import numpy as np
import pytest

from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.c.regions import Loop, Store, c_lines, open_loop
from aotpack.render.emit.regions import Region
from tests.render.c import forms

R = Axis("r", Int.of(1))
LENGTHS = (0, 1, 3, 4, 5, 63, 64, 130)


def text_of(name: str, loop: Loop, root: Region) -> str:
    """A function that adds 1 to each element of ``hits`` that a loop meets."""
    head = f"AOT_EXPORT void {name}(int32_t *hits, int64_t n) {{"
    return "\n".join([head, *c_lines(root, 1), "}"])


def counted(*, lanes: int = 0, streams: str = "", is_vector: bool = False) -> tuple[Loop, Region]:
    root = Region(frozenset())
    loop = open_loop(root, frozenset((R,)), "r", "n", lanes=lanes, is_vector=is_vector)
    loop.streams = streams
    loop.stores.append(Store("hits[r]", "hits[r] + 1", "int32_t"))
    root.close()
    return loop, root


KINDS = {
    "plain": counted(),
    "vector": counted(is_vector=True),
    "lanes": counted(lanes=4),
    "streams": counted(streams="n > 0"),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    texts = tuple(text_of(name, *made) for name, made in KINDS.items())
    return forms.library(tmp_path_factory.mktemp("loops"), texts, list(forms.EFFORTS)[-1])


@pytest.mark.parametrize("name", KINDS)
def test_every_point_is_met_once(name: str, library: ctypes.CDLL) -> None:
    for length in LENGTHS:
        hits = np.zeros(length + 100, np.int32)[16:]  # not where a line of the cache begins
        getattr(library, name)(ctypes.c_void_p(hits.ctypes.data), ctypes.c_int64(length))
        assert hits[:length].tolist() == [1] * length and not hits[length:].any()


def test_a_loop_of_lanes_numbers_them_and_a_plain_one_does_not() -> None:
    lanes, plain = ("\n".join(c_lines(KINDS[name][1])) for name in ("lanes", "plain"))
    assert lanes.count("const int64_t r = r_block + lane;") == 2  # blocks, and the rest
    assert "lane" not in plain and "simd" not in plain


def test_what_is_around_a_loop_has_braces() -> None:
    root = Region(frozenset())
    root.open("if (ready)", frozenset()).append("go();")
    assert list(c_lines(root, 1)) == ["    if (ready) {", "        go();", "    }"]
