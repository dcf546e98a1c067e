"""A package with two forms of every launch, for the processors of this machine."""

import pytest

from aotpack.stages import Decisions
from aotpack.target import CPU
from tests.tune.packages import PackedWeight, packed


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackedWeight:
    return packed("products", CPU, tmp_path_factory.mktemp("tune"), Decisions(2))
