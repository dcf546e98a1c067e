"""Names that lines of Triton kernels give: those of every golden text are known, others free."""

import ast
from pathlib import Path

import pytest

from aotpack.render import reserved_names
from aotpack.render.triton.reserved import TRITON_NAMES

GOLDEN = Path(__file__).parents[2] / "golden" / "render"
KERNELS = [path for path in sorted(GOLDEN.glob("*.py")) if "@triton.jit" in path.read_text()]


def given(text: str) -> set[str]:
    """What the function that is launched assigns; of a size it is known by its own name."""
    *_, entry = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    names = [n for n in ast.walk(entry) if isinstance(n, ast.Name)]
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_no_size_may_have_a_name_that_a_kernel_gives(path: Path) -> None:
    names = given(path.read_text())
    assert names - {name for name in names if name in reserved_names()} == set()


@pytest.mark.parametrize(
    "name", ["acc12", "n1_mask_early", "in_ptr", "x_mask", "merge_welford", "r_start"]
)
def test_names_of_lines_are_reserved(name: str) -> None:
    assert name in TRITON_NAMES


@pytest.mark.parametrize("name", ["accent", "batch", "pointer", "s", "rows"])
def test_other_names_are_free(name: str) -> None:
    assert name not in TRITON_NAMES
