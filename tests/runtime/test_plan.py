"""Places of a plan, and the launches that stand there."""

from aotpack.runtime.plan import Branch, Call, Launch, Part, Plan, first, flat, parts


def test_several_launches_at_one_place_share_its_number() -> None:
    a, b, c = (Launch(name, (1, 1, 1), ()) for name in "abc")
    plan = Plan((), (), (first("key", (a, b), c), c))
    assert list(plan.steps()) == [(0, a), (0, b), (1, c)]


def test_calls_of_torch_are_parts_of_a_form_and_no_launches() -> None:
    a, b, call = Launch("a", (1, 1, 1), ()), Launch("b", (1, 1, 1), ()), Call("c", ())
    assert list(parts((a, (call, b)))) == [a, call, b]
    assert list(flat((a, (call, b)))) == [a, b]


def test_a_branch_is_one_step_whatever_is_inside() -> None:
    a = Launch("a", (1, 1, 1), ())
    branch = Branch("asked", Part((), (a, a)), Part((), ()))
    assert list(Plan((), (), (a, branch)).steps()) == [(0, a), (1, branch)]
