"""Parameters of C kernels, taken from the cells of a call."""

import re

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.target import CPU
from tests.render.models import rendered_program, shown
from tests.schedule.programs import BF16, I64, Writer, apply, load

N = Var("n", 1, 64)


def kernel() -> tuple[str, list[str]]:
    """The text of a kernel over tensors of several types, and its arguments' names."""
    w = Writer((N,))
    x, y = w.input("x", N, dtype=BF16), w.input("y", N, dtype=I64)
    w.pointwise(
        "z", [N], lambda i: apply("add", load(x, i), load(x, Int.of(N) - 1 - i)), dtype=BF16
    )
    w.pointwise("p", [N], lambda i: load(y, i), dtype=I64)
    program = w.program(w.buffers["z"], w.buffers["p"])
    (first, *_) = rendered_program(program, (CPU,)).kernels
    return shown(first.text), [arg.name for arg in first.args]


def test_each_argument_has_its_cell_in_order_and_what_is_read_is_constant() -> None:
    text, names = kernel()
    head = text.split("first *=", 1)[0]
    pointers = re.findall(r"(const )?(\w+) \*const (\w+) = .*slots\[(\d+)\]", head)
    assert [name for _, _, name, _ in pointers] == names[:-1]
    assert [int(number) for *_, number in pointers] == list(range(len(pointers)))
    for is_constant, kind, name, _ in pointers:
        assert bool(is_constant) is not name.startswith("out")
        assert kind == ("uint16_t" if name.startswith(("x", "out")) else kind)
    assert f"const int64_t size_of_n = (int64_t)call->cells[call->slots[{len(pointers)}]];" in head
