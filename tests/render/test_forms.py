"""Which forms of a launch a package holds: the first few, or what was measured on a target."""

from aotpack.ir.kernels.tiles import PointwiseTile, Variant
from aotpack.ir.symbolic.integers import Int
from aotpack.render.forms import Form, FormSelector, form_name
from aotpack.render.sources import Launched, Sources
from aotpack.stages import Decisions
from aotpack.target import Target

ANY = Variant(PointwiseTile(256, 4), 1, 999, Int.of(1), None)
SM80, SM90 = (Target("cuda", arch) for arch in (80, 90))


def form(name: str) -> Form:
    return lambda own, sources: (Launched(name, Int.of(8), ("x",)),)


FORMS = tuple(map(form, ("a", "b", "c")))
KEY = "a x 8"


def selector(candidates: int, **measured: str) -> FormSelector:
    """With the quickest form by target."""
    known = {(target, KEY): name for target, name in measured.items()}
    return FormSelector(Sources(), Decisions(candidates, known))


def test_as_many_forms_are_held_as_are_asked_for() -> None:
    for count, names in ((1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])):
        made = selector(count)
        (choice,) = made.choices(ANY, FORMS, [SM90])
        assert [form_name(one) for one in choice.forms] == names
        assert list(made.opened) == ([KEY] if count > 1 else [])


def test_equal_forms_count_once_and_leave_nothing_open() -> None:
    made = selector(3)
    (choice,) = made.choices(ANY, (form("a"), form("a")), [SM90])
    assert len(choice.forms) == 1 and not made.opened


def test_what_was_quickest_is_held_alone_on_its_target() -> None:
    made = selector(2, sm_90="c")
    choices = made.choices(ANY, FORMS, [SM80, SM90])
    arches = [(one.variant.arch_low, one.variant.arch_high) for one in choices]
    assert arches == [(80, 80), (90, 90)]
    assert [[form_name(one) for one in choice.forms] for choice in choices] == [["a", "b"], ["c"]]
    assert list(made.settled) == [("sm_90", KEY)] and list(made.opened) == [KEY]


def test_a_measurement_of_what_is_no_form_here_decides_nothing() -> None:
    for measured in ({"sm_90": "other"}, {"cpu": "c"}):
        made = selector(1, **measured)
        (choice,) = made.choices(ANY, FORMS, [SM80, SM90])
        assert form_name(choice.forms[0]) == "a" and not made.settled


def test_forms_behind_the_first_may_be_left_out() -> None:
    spare: list[bool] = []

    def noted(own: Variant, sources: Sources) -> tuple[Launched, ...]:
        spare.append(sources.spare)
        return (Launched(f"k{len(spare)}", Int.of(1), ()),)

    selector(3).choices(ANY, (noted,) * 3, [SM90])
    assert spare == [False, True, True]
