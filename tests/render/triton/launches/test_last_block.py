"""Launches that their last programs complete: counters, barriers, loads past the first cache."""

import re

import torch
from torch.export import Dim

from aotpack.stages import Rendered
from tests.render.models import Total, kernel_text, rendered
from tests.render.test_wrapper import plan_of

LONG = 2**20


def total(rows: int, length: int = LONG) -> Rendered:
    return rendered(Total(), torch.zeros(rows, length))


def functions(text: str) -> list[str]:
    """Everything behind each ``@triton.jit``."""
    return text.split("@triton.jit\n")[1:]


def test_who_arrives_last_is_known_by_a_counter_that_is_left_as_it_was() -> None:
    product = total(2)
    entry = functions(kernel_text(product))[-1].splitlines()
    (launch,) = plan_of(product)(90).launches
    parts = launch.grid[0] // 2
    asked = next(n for n, line in enumerate(entry) if "tl.atomic_add(" in line)
    assert entry[asked - 1].strip() == "tl.debug_barrier()"
    assert entry[asked].endswith(f', 1, sem="acq_rel") == {parts - 1}:')
    assert entry[-2].strip() == "tl.store(arrived_ptr + group, 0)"


def test_what_other_programs_stored_is_read_past_the_first_cache() -> None:
    *_, walk, close, _ = functions(kernel_text(total(2)))
    loads = [re.findall(r"tl.load\(.*\)", text) for text in (walk, close)]
    assert loads[0] and all(".cg" not in line for line in loads[0])
    assert loads[1] and all('cache_modifier=".cg"' in line for line in loads[1])


def test_each_row_has_its_counter() -> None:
    (counter,) = plan_of(total(2))(90).counters
    assert counter.size == 4 * 2
    product = rendered(
        Total(), torch.zeros(2, LONG), dynamic_shapes={"x": {0: Dim("b", min=1, max=64)}}
    )
    assert [plan_of(product)(90, b).counters[0].size for b in (1, 7)] == [4, 28]


def test_rows_that_one_program_walks_need_no_counter() -> None:
    product = total(4096, 512)
    assert plan_of(product)(90).counters == ()
    assert "atomic" not in product.kernels[0].text
