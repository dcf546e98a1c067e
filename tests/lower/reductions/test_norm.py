"""Normalisations."""

import pytest

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, positives

CASES = [
    case("layer_norm.default", floats(2, 3, 8), [8], floats(8), floats(8), 1e-05),
    case(
        "layer_norm.default",
        floats(2, 3, 8).bfloat16(),
        [8],
        floats(8).bfloat16(),
        floats(8).bfloat16(),
    ),
    case("layer_norm.default", floats(2, 3, 8), [3, 8]),
    case("native_layer_norm.default", floats(2, 3, 8), [8], floats(8), None, 1e-05),
    case("layer_norm.default", floats(8), [8]),
    case("rms_norm.default", floats(2, 8), [8], floats(8), 1e-06),
    case("rms_norm.default", floats(2, 8) * 0.001, [8]),
    case("rms_norm.default", (floats(2, 8) * 0.001).bfloat16(), [8]),
    case("rms_norm.default", (floats(2, 8) * 0.001).half(), [8]),
    case("group_norm.default", floats(2, 6, 3, 2), 3, floats(6), floats(6)),
    case("group_norm.default", floats(2, 6), 2),
    case("native_group_norm.default", floats(2, 6, 3), floats(6), floats(6), 2, 6, 3, 3, 1e-5),
    case(
        "batch_norm.default",
        floats(2, 3, 4),
        floats(3),
        floats(3),
        floats(3),
        positives(3),
        False,
        0.1,
        1e-05,
        True,
    ),
    case(
        "instance_norm.default",
        floats(2, 3, 4, 5),
        floats(3),
        floats(3),
        None,
        None,
        True,
        0.1,
        1e-05,
        True,
    ),
    case("_fused_rms_norm.default", floats(2, 8), [8], floats(8), 1e-06),
    case(
        "_native_batch_norm_legit_no_training.default",
        floats(2, 3, 4),
        floats(3),
        floats(3),
        floats(3),
        positives(3),
        0.1,
        1e-05,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (
            case("batch_norm.default", floats(2, 3), None, None, None, None, True, 0.1, 1e-5, True),
            "training mode",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
