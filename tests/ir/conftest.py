"""Golden texts of the IR."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "ir"
UPDATE = bool(os.environ.get("AOTPACK_UPDATE_GOLDEN"))


@pytest.fixture
def golden_ir(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Compare a text with ``tests/golden/ir/<test>.ir``; AOTPACK_UPDATE_GOLDEN=1 rewrites it."""

    def check(text: str) -> None:
        path = GOLDEN / f"{request.node.originalname}.ir"
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run with AOTPACK_UPDATE_GOLDEN=1"
        assert text == path.read_text()

    yield check
