"""Models that need Python values of the call before are refused; what changes nothing is not."""

import warnings
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from aotpack.errors import TraceError
from aotpack.stages import Traced
from aotpack.trace import trace

ONES, ZEROS = torch.ones(2), torch.zeros(2)
HEAD = "(?s)tracing m: forward leaves the model other than it found it: .*\n  forward .*"


@dataclass(slots=True)
class Slots:
    length: int = 0


class Part(nn.Module):
    """A model, or a part of one, with state of every form."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.function = forward
        self.register_buffer("b", torch.zeros(2))
        self.last, self.n, self.table = torch.zeros(2), 0, None
        self._items, self.by_name = [], {"k": torch.zeros(2)}
        self.recent = deque([torch.zeros(2)], maxlen=1)
        self.queue, self.array = deque([torch.zeros(2)] * 2, maxlen=2), np.zeros(1)
        self.object, self.slots, self.mode = SimpleNamespace(length=0), Slots(), "off"

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


class Whole(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList([part])

    def forward(self, x: Tensor) -> Any:
        return self.parts[0](x)


def traced(forward: Callable[..., Any], x: Tensor = ONES, **options: Any) -> Traced:
    return trace(Part(forward), (x,), name="m", version="1", **options)


def assigns_a_buffer(m: Any, x: Tensor) -> Tensor:
    m.b = m.b + x
    return m.b * 1


def gives_memory(m: Any, x: Tensor) -> Tensor:
    m.b.data = m.b + x
    return m.b * 1


def gives_memory_that_is_written_first(m: Any, x: Tensor) -> Tensor:
    m.b.data = x + 1
    return m.b * 1


def gives_memory_unless_exported(m: Any, x: Tensor) -> Tensor:
    if not torch.compiler.is_exporting():
        m.b.data = m.b + 0
    return m.b * x


def assigns_after_reading(m: Any, x: Tensor) -> Tensor:
    y = x - m.last
    m.last = x.clone()
    return y


def assigns_an_item(m: Any, x: Tensor) -> Tensor:
    m.by_name["k"] = m.by_name["k"] + x
    return m.by_name["k"] * 1


def appends(m: Any, x: Tensor) -> Tensor:
    m._items.append(x * 1)
    return torch.stack(m._items).sum(0)


def keeps_the_recent(m: Any, x: Tensor) -> Tensor:
    y = x - m.recent[0]
    m.recent.append(x * 1)
    return y


def adds_a_key(m: Any, x: Tensor) -> Tensor:
    m.by_name[len(m.by_name)] = x * 1
    return torch.stack([*m.by_name.values()]).sum(0)


def counts(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return x + m.n


def counts_in_an_object(m: Any, x: Tensor) -> Tensor:
    m.object.length += 1
    return x + m.object.length


def counts_in_slots(m: Any, x: Tensor) -> Tensor:
    m.slots.length += 1
    return x + m.slots.length


def changes_a_word(m: Any, x: Tensor) -> Tensor:
    m.mode = "off" if m.mode == "on" else "on"
    return x + (m.mode == "on")


def writes_in_eager_alone(m: Any, x: Tensor) -> Tensor:
    y = x + m.last
    if not torch.compiler.is_exporting():
        m.last.add_(x)
    return y


def starts(m: Any, x: Tensor) -> Tensor:
    y = x if m.table is None else x - m.table
    m.table = x * 1
    return y


def calibrates(m: Any, x: Tensor) -> Tensor:
    if m.n == 0:
        m.b.copy_(x * 2)
        m.n = 1
    return x - m.b


def keeps_the_first(m: Any, x: Tensor) -> Tensor:
    if m.table is None:
        m.table = x * 2
    return x + m.table


def fails_later(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return x.reshape(2, m.n)


def keeps_two(m: Any, x: Tensor) -> Tensor:
    y = x - m.queue[0]
    m.queue.append(x * 1)
    return y


def counts_to_three(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return x + (m.n > 2)


def counts_in_numpy(m: Any, x: Tensor) -> Tensor:
    m.n = np.float64(m.n + 1)
    return x * float(m.n)


def writes_an_array(m: Any, x: Tensor) -> Tensor:
    m.array[0] += 1
    return x + float(m.array[0])


LOST = {
    "history": (keeps_two, r"assigns the attribute queue\[1\] anew"),
    "third call": (counts_to_three, "the attribute n from 0 to 2"),
    "array": (writes_an_array, "writes to the attribute array, an ndarray; keep a buffer"),
    "buffer": (
        assigns_a_buffer,
        r"assigns the buffer b anew; write self.b.copy_\(...\)\n  at \S+:\d+: m.b = .*\nA package",
    ),
    "memory": (
        gives_memory_unless_exported,
        r"gives b other memory \(.data, .*\); write self.b.copy_",
    ),
    "attribute": (assigns_after_reading, r"assigns the attribute last anew; write self.last.copy_"),
    "item": (assigns_an_item, r"assigns the attribute by_name\['k'\] anew; write self.by_name"),
    "list": (
        appends,
        r"the attribute _items, a list \(0 items, then 1\); keep .* index_copy_",
    ),
    "deque": (keeps_the_recent, r"assigns the attribute recent\[0\] anew"),
    "key": (adds_a_key, r"the attribute by_name, a dict \(1 items, then 2\)"),
    "number": (counts, r"n from 0 to 1; keep a buffer of torch.tensor\(0\), and write"),
    "number of numpy": (counts_in_numpy, r"keep a buffer of torch.tensor\(0.0\)"),
    "number of an object": (counts_in_an_object, r"the attribute object.length from 0 to 1"),
    "first call": (
        starts,
        r"sets the attribute table, which was None; keep a buffer",
    ),
    "failure": (fails_later, r"the attribute n from 0 to 1"),
}


@pytest.mark.parametrize("kind", LOST)
def test_what_a_package_would_lose_is_refused_by_name(kind: str) -> None:
    forward, words = LOST[kind]
    with pytest.raises(TraceError, match=HEAD + words):
        traced(forward)


@pytest.mark.parametrize("kind", ["buffer", "list"])
def test_strict_mode_refuses_the_same(kind: str) -> None:
    forward, words = LOST[kind]
    with pytest.raises(TraceError, match=HEAD + words):
        traced(forward, strict=True)


@pytest.mark.parametrize("kind", ["attribute", "list", "first call"])
def test_inputs_that_leave_zeros_hide_nothing(kind: str) -> None:
    forward, words = LOST[kind]
    with pytest.raises(TraceError, match=HEAD + words):
        traced(forward, ZEROS)


@pytest.mark.parametrize(
    ("forward", "words"),
    [(calibrates, "the attribute n from 0 to 1"), (keeps_the_first, "sets the attribute table")],
)
def test_what_the_first_inputs_leave_shows_on_others(
    forward: Callable[..., Any], words: str
) -> None:
    with pytest.raises(TraceError, match=HEAD + words):
        traced(forward, torch.tensor([1.0, 3.0]))


def takes_rising_inputs(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    if not torch.compiler.is_exporting() and x[0] > x[1]:
        raise ValueError("falling")
    return x * 2


def test_a_model_may_refuse_other_inputs() -> None:
    assert traced(takes_rising_inputs, torch.tensor([1.0, 3.0]))


def test_a_part_is_named_by_its_path_and_the_model_is_as_before() -> None:
    part = Part(assigns_after_reading)
    last = part.last
    with pytest.raises(TraceError, match=r"attribute parts.0.last anew; write self.last.copy_"):
        trace(Whole(part), (ONES,), name="m", version="1")
    assert part.last is last and torch.equal(last, ZEROS)


def test_a_method_names_the_attributes_of_its_module() -> None:
    module = Part(assigns_after_reading)
    with pytest.raises(TraceError, match=r"\n  forward assigns the attribute last anew"):
        trace(module.forward, (ONES,), name="m", version="1")


def swaps_buffers(m: Any, x: Tensor) -> Tensor:
    m.b, m.c = m.c, m.b
    return m.b + x


OTHER_MEMORY = {
    "data": (gives_memory, r"\(.data = ...\), .*in place: t.copy_.*\n  at .*:\d+: m.b.data = m.b"),
    "written first": (gives_memory_that_is_written_first, r"\n  at .*:\d+: m.b.data = x"),
    "set": (lambda m, x: m.b.set_(m.b + x) * 1, r"gives b other memory \(set_\).*: b.copy_\("),
    "size": (
        lambda m, x: m.b.resize_(4)[:2] * x,
        r"gives b other memory \(resize_\).*\n  at .*resize_",
    ),
    "input": (lambda m, x: x.set_(m.b + 1) * 1, r"gives x other memory \(set_\)"),
    "swap": (swaps_buffers, r"assigns buffers anew; .*self.b.copy_.*\n  at .*:\d+: m.b, m.c = "),
    "storage": (
        lambda m, x: m.b.set_(m.c.untyped_storage()) * x,
        r"forward takes and changes no storages .*self.b.copy_.*\n  at .*untyped_storage",
    ),
}


@pytest.mark.parametrize("kind", OTHER_MEMORY)
def test_other_memory_is_refused_with_the_line_or_the_name(kind: str) -> None:
    forward, words = OTHER_MEMORY[kind]
    module = Part(forward)
    module.register_buffer("c", torch.ones(2))
    with pytest.raises(TraceError, match="(?s)" + words):
        trace(module, (ONES,), name="m", version="1")
    assert module.b.tolist() == [0, 0] and module.c.tolist() == [1, 1]


def test_tensors_of_forward_may_take_memory_of_others() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        m.b.data = m.b.data.to(x.dtype)  # its own
        return torch.empty(0).set_(x) + x.clone().resize_(2) * m.b

    assert traced(forward).graph.signature.updates == ()


def copies_into_a_buffer(m: Any, x: Tensor) -> Tensor:
    m.b.copy_(m.b + x)
    return m.b * 1


def copies_after_reading(m: Any, x: Tensor) -> Tensor:
    y = x - m.last
    m.last.copy_(x)
    return y


def writes_through_data(m: Any, x: Tensor) -> Tensor:
    m.b.data += x.data
    m.b.data[1:].mul_(2)
    return m.b * x.data


def copies_into_an_item(m: Any, x: Tensor) -> Tensor:
    m.by_name["k"].copy_(m.by_name["k"] + x)
    return m.by_name["k"] * 1


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        (copies_into_a_buffer, "b"),
        (copies_after_reading, "last"),
        (lambda m, x: m.b.data.copy_(m.b + x) * 1, "b"),
        (lambda m, x: m.last.data.add_(x) * 1, "last"),
        (writes_through_data, "b"),
        (copies_into_an_item, "by_name_k"),
    ],
)
def test_what_is_advised_is_state(forward: Callable[..., Any], name: str) -> None:
    assert traced(forward).graph.signature.updates == (name,)


def counts_for_nobody(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    m.object.length += 1
    return x + 1


def fills_a_table(m: Any, x: Tensor) -> Tensor:
    if m.table is None or m.table.shape[0] < x.shape[0]:
        m.table = torch.arange(x.shape[0]) * 0.5
    return x + m.table


def fills_a_table_of_an_object(m: Any, x: Tensor) -> Tensor:
    if not hasattr(m.object, "table"):
        m.object.table = torch.arange(x.shape[0]) * 0.5
    return x + m.object.table


def keeps_a_mask_for_each_size(m: Any, x: Tensor) -> Tensor:
    mask = m.by_name.setdefault(x.shape[0], torch.ones(x.shape[0]).cumsum(0))
    return x * mask


def shows_what_it_computed(m: Any, x: Tensor) -> Tensor:
    m.last = x.exp()
    m._items.append(m.last)
    return m.last + 1


def takes_views_of_weights(m: Any, x: Tensor) -> Tensor:
    m.last = m.b.view(2, 1)
    return x + m.last


def starts_anew(m: Any, x: Tensor) -> Tensor:
    m.last = torch.zeros_like(m.last)
    m.last += x
    return m.last * 2


@pytest.mark.parametrize(
    "forward",
    [
        counts_for_nobody,
        fills_a_table,
        fills_a_table_of_an_object,
        starts_anew,
        keeps_a_mask_for_each_size,
        shows_what_it_computed,
        takes_views_of_weights,
        lambda m, x: m.__dict__.update(n=m.n + 1) or torch.dropout(x, 0.5, True),
    ],
)
def test_what_changes_no_result_is_accepted(forward: Callable[..., Any]) -> None:
    module = Part(forward)
    before = {key: vars(module)[key] for key in ("last", "n", "table")}
    trace(module, (ONES,), name="m", version="1")
    assert all(vars(module)[key] is one for key, one in before.items()) and not module._items


def test_weights_that_hooks_compute_are_accepted() -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        layer = nn.utils.weight_norm(nn.Linear(2, 2))
    trace(Whole(layer), (ONES,), name="m", version="1")


TABLES: dict[Any, Tensor] = {}
COUNT = 0


@lru_cache
def cached_table(size: int) -> Tensor:
    return torch.arange(size) * 0.5


@lru_cache
def first_of(m: Any) -> Tensor:
    return m.last * 1


def listed(rows: list[Tensor]) -> Callable[..., Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        if not rows:
            rows.append(torch.arange(x.shape[0]) * 0.5)
        return x + rows[0]

    return forward


def fills_a_global_table(m: Any, x: Tensor) -> Tensor:
    if x.shape[0] not in TABLES:
        TABLES[x.shape[0]] = torch.arange(x.shape[0]) * 0.5
    return x + TABLES[x.shape[0]]


def fills_a_default(m: Any, x: Tensor, table: list[Tensor] = []) -> Tensor:  # noqa: B006
    if not table:
        table.append(torch.arange(x.shape[0]) * 0.5)
    return x + table[0]


def takes_a_cached_table(m: Any, x: Tensor) -> Tensor:
    return x + cached_table(x.shape[0])


@pytest.mark.parametrize(
    "forward", [takes_a_cached_table, listed([]), fills_a_global_table, fills_a_default]
)
def test_tables_outside_of_the_model_are_accepted_and_as_before(
    forward: Callable[..., Any],
) -> None:
    for _ in range(2):
        made = traced(forward)
        assert not TABLES and torch.equal(Part(forward)(ONES), torch.tensor([1.0, 1.5]))
        TABLES.clear()
    assert [node.op for node in made.graph.nodes][-1] == "aten.add.Tensor"


def test_cached_tables_follow_dynamic_sizes() -> None:
    shapes = {"x": {0: torch.export.Dim("n", max=8)}}
    made = trace(Part(takes_a_cached_table), (ONES,), name="m", version="1", dynamic_shapes=shapes)
    assert "aten.arange.default" in {node.op for node in made.graph.nodes}


def keeps_a_global_for_each_size(m: Any, x: Tensor) -> Tensor:
    return x + TABLES.setdefault(x.shape[0], torch.ones(x.shape[0]))


def test_dynamic_sizes_are_no_keys() -> None:
    shapes = {"x": {0: torch.export.Dim("n", max=8)}}
    words = "unhashable type.*a dynamic size is no key of a dict.*functools.lru_cache"
    with pytest.raises(TraceError, match=f"(?s){words}"):
        trace(Part(keeps_a_global_for_each_size), (ONES,), name="m", version="1",
              dynamic_shapes=shapes)  # fmt: skip


def counts_globally(m: Any, x: Tensor) -> Tensor:
    global COUNT
    COUNT += 1
    return x + COUNT


def keeps_the_first_globally(m: Any, x: Tensor) -> Tensor:
    return x + TABLES.setdefault("first", x * 2)


def caches_what_is_written(m: Any, x: Tensor) -> Tensor:
    m.last = x * 2
    return x + first_of(m)


def counts_in_the_class(m: Any, x: Tensor) -> Tensor:
    Part.count = getattr(Part, "count", 0) + 1
    return x + Part.count


OUTSIDE = {
    "class": (counts_in_the_class, "changes the class attribute Part.count from nothing"),
    "number": (counts_globally, r"changes the global variable COUNT from 0 to 1; keep a buffer"),
    "first": (keeps_the_first_globally, r"changes the global variable TABLES, a dict \(0 items"),
    "cache": (caches_what_is_written, r".*fills the cache of first_of"),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_state_outside_of_the_model_is_refused_and_put_back(kind: str) -> None:
    forward, words = OUTSIDE[kind]
    with pytest.raises(TraceError, match=HEAD + words):
        traced(forward, torch.tensor([1.0, 3.0]))
    assert COUNT == 0 and not TABLES and not hasattr(Part, "count")


class Makes(OrderedDict[str, Any]):
    """A dict that makes what it is asked for, and cannot make all."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()


MAKERS = Makes(table=lambda: torch.arange(2) * 0.5, other=lambda: 1 / 0)


def makes_a_table(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return x + MAKERS["table"]


class Cached:
    @staticmethod
    @lru_cache
    def table(size: int) -> Tensor:
        return torch.arange(size) * 0.5


def takes_a_static_table(m: Any, x: Tensor) -> Tensor:
    return x + Cached.table(x.shape[0])


def takes_a_table_by_name(m: Any, x: Tensor, *, tables: dict[Any, Any] = {}) -> Tensor:  # noqa: B006
    return x + tables.setdefault("table", torch.arange(x.shape[0]) * 0.5)


def fills_what_is_bound(tables: dict[str, Tensor], m: Any, x: Tensor) -> Tensor:
    return x + tables.setdefault("table", torch.arange(x.shape[0]) * 0.5)


@pytest.mark.parametrize(
    "forward",
    [makes_a_table, takes_a_static_table, takes_a_table_by_name, partial(fills_what_is_bound, {})],
)
def test_tables_of_other_holders_are_accepted(forward: Callable[..., Any]) -> None:
    traced(forward)
    assert torch.equal(Part(forward)(ONES), torch.tensor([1.0, 1.5]))
    assert list(MAKERS) == ["table", "other"]


def hooks_a_part(m: Any, x: Tensor) -> Tensor:
    m.register_forward_hook(lambda part, inputs, result: result + 1)
    return x * 2


def test_hooks_that_forward_registers_are_refused() -> None:
    with pytest.raises(TraceError, match=HEAD + "changes the hook .* from nothing to a function"):
        traced(hooks_a_part)


HIDDEN: ContextVar[Tensor | None] = ContextVar("HIDDEN", default=None)


def hides_a_table(m: Any, x: Tensor) -> Tensor:
    if HIDDEN.get() is None:
        HIDDEN.set(torch.arange(x.shape[0]) * 0.5)
    return x + HIDDEN.get()


def test_a_cache_that_no_build_sees_is_told() -> None:
    context = copy_context()
    with pytest.raises(TraceError, match="running m eagerly .* from a cache outside of itself"):
        context.run(traced, hides_a_table)


def registers_a_table(m: Any, x: Tensor) -> Tensor:
    if not hasattr(m, "rows"):
        m.register_buffer("rows", torch.arange(x.shape[0]) * 0.5)
    return x + m.rows


def test_buffers_that_forward_registers_are_refused_by_name() -> None:
    part = Part(registers_a_table)
    with pytest.raises(TraceError, match="forward registers the buffer rows, .* in __init__"):
        trace(part, (ONES,), name="m", version="1")
    part(ONES)
    assert [one.name for one in trace(part, (ONES,), name="m", version="1").graph.weights] == [
        "rows"
    ]
