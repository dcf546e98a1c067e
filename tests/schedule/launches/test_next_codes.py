"""Which products of one row request codes of a later one, and how many bytes."""

from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.kernels.one_row import DECODED
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply
from aotpack.schedule.launches.next_codes import request_next_codes
from aotpack.schedule.tiles.few_rows import few_rows_variants
from tests.schedule.programs import BF16, Writer, load

MIB = 1024 * 1024


class Chain:
    """Products of one row, each of a weight of its own, of (n, k) codes of 8 bits."""

    def __init__(self) -> None:
        self.writer = Writer(())
        self.strides: dict[str, tuple[Int, ...]] = {}
        self.kernels: list[Kernel] = []

    def add(
        self, n: int, k: int, pitch: int = 0, *, is_weight: bool = True, kind: str = "cast"
    ) -> "Chain":
        number = len(self.kernels)
        w = self.writer
        x = w.input(f"x{number}", 1, k, dtype=BF16)
        make = w.weight if is_weight else w.input
        codes = make(f"w{number}", n, k, dtype=DType.INT8)
        self.strides |= {
            x.name: (Int.of(k), Int.of(1)),
            codes.name: (Int.of(pitch or k), Int.of(1)),
        }
        rows, columns, depth = Axis("m", Int.of(1)), Axis("n", Int.of(n)), Axis("k", Int.of(k))
        right = Apply(kind, (load(codes, columns, depth),), BF16)
        left = load(x, rows, depth)
        one = Matmul(f"y{number}", (), rows, columns, depth, left, right, BF16)
        variants = few_rows_variants((one,), w.program(), self.strides, frozenset())
        member = Member(one, (), outer=False)
        read = x.name, codes.name
        self.kernels.append(
            Kernel(f"k{number}", (rows, columns), (member,), (one.target,), read, variants)
        )
        return self

    def program(self) -> Program:
        return self.writer.program()

    def requested(self) -> list[tuple[str, int]]:
        """Of each product in the matrix unit: the codes that its programs request."""
        found = []
        for kernel in request_next_codes(self.program(), tuple(self.kernels), self.strides):
            for variant in kernel.variants:
                tile = variant.tile
                assert isinstance(tile, MatmulTile)
                assert tile.in_matrix_unit or not tile.next_bytes
                if tile.in_matrix_unit:
                    programs = int(kernel.products[0].n.extent) // tile.n
                    found.append((tile.next_codes, tile.next_bytes * programs))
        return found


def test_the_next_launch_is_requested_up_to_8_mib() -> None:
    found = Chain().add(8192, 2048).add(2048, 8192).add(4096, 2048).add(8192, 2048).requested()
    assert found.pop() == ("", 0)  # neither of the last two has a long row
    assert found == [("w1", 8 * MIB), ("w2", 8 * MIB), ("", 0)]


def test_a_later_launch_is_requested_up_to_4_mib_behind_small_ones() -> None:
    found = Chain().add(2048, 8192).add(3072, 2048).add(8192, 2048).requested()
    assert found == [("w2", 4 * MIB), ("", 0), ("", 0)]


def test_the_share_of_a_program_is_a_multiple_of_16_bytes() -> None:
    found = Chain().add(8208, 2048).add(2048, 8192).requested()
    share = 8 * MIB // (8208 // 16) // 16 * 16
    assert found[0] == ("w1", share * (8208 // 16)) and found[0][1] < 8 * MIB


@pytest.mark.parametrize(
    ("n", "k", "pitch", "is_weight"),
    [
        (3072, 2048, 0, True),  # small: 6 MiB
        (2048, 8192, 8208, True),  # with gaps between columns
        (2048, 8192, 0, False),  # of an input, which may have moved
        (2048, 8200, 0, True),  # not in the matrix unit
    ],
)
def test_others_are_not(n: int, k: int, pitch: int, is_weight: bool) -> None:
    chain = Chain().add(8192, 2048).add(n, k, pitch, is_weight=is_weight)
    assert chain.requested()[0] == ("", 0)


def test_a_product_outside_the_matrix_unit_ends_the_search() -> None:
    chain = Chain().add(8192, 2048).add(2048, 8200).add(8192, 2048)
    assert chain.requested()[0] == ("", 0)


def test_8_bit_floats_are_not() -> None:
    chain = Chain().add(8192, 2048, kind=DECODED).add(2048, 8192, kind=DECODED)
    assert {name for name, _ in chain.requested()} == {""}


def test_an_attention_between_does_not() -> None:
    chain = Chain().add(8192, 2048).add(2048, 8192)
    last = chain.kernels.pop()
    chain.kernels += [replace(last, name="other", members=(), variants=()), last]
    assert chain.requested()[0] == ("w1", 4 * MIB)
