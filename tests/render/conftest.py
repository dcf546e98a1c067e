"""Golden kernel texts of the renderer."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "render"
UPDATE = bool(os.environ.get("AOTPACK_UPDATE_GOLDEN"))


@pytest.fixture
def golden_kernel(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with ``tests/golden/render/<test>.py``; AOTPACK_UPDATE_GOLDEN=1 rewrites it."""

    def check(text: str) -> None:
        path = GOLDEN / f"{request.node.originalname.removeprefix('test_')}.py"
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run with AOTPACK_UPDATE_GOLDEN=1"
        assert text == path.read_text()

    return check
