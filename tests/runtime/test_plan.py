"""Places of a plan, and the launches that stand there."""

from aotpack.runtime.plan import Launch, Plan, first


def test_several_launches_at_one_place_share_its_number() -> None:
    a, b, c = (Launch(name, (1, 1, 1), ()) for name in "abc")
    plan = Plan((), (), (first("key", (a, b), c), c))
    assert list(plan.steps()) == [(0, a), (0, b), (1, c)]
