"""Constants that forward changes are state; caches of transformers are such."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import aotpack
from aotpack.errors import TraceError, UnsupportedError
from aotpack.trace import trace

X = torch.ones(2, 3)


class Cached(nn.Module):
    """A cache in plain objects, and perhaps in a buffer too."""

    def __init__(self, buffer: torch.Tensor | None = None, read: bool = False) -> None:
        super().__init__()
        self.layers = [SimpleNamespace(keys=torch.zeros(2, 3), table=torch.arange(3.0))]
        if buffer is not None:
            self.layers[0].keys = buffer
            self.register_buffer("rows", buffer[:1] if read else buffer, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer = self.layers[0]
        layer.keys.add_(x * layer.table)
        return layer.keys + getattr(self, "rows", 0)


def traced(model: object, **options: object) -> object:
    return trace(model, (X,), name="m", version="1", **options).graph


def test_a_constant_that_forward_changes_is_called_as_it_is_reached():
    model = Cached()
    graph = traced(model)
    assert graph.signature.updates == ("layers_0_keys",)
    names = [weight.name for weight in graph.weights]
    assert names[0] == "layers_0_keys" and len(names) == 2
    assert torch.equal(model.layers[0].keys, torch.zeros(2, 3)) and not [*model.buffers()]


def test_a_buffer_that_is_reached_by_two_ways_is_one():
    graph = traced(Cached(torch.zeros(2, 3)))
    assert graph.signature.updates == ("rows",)
    assert [weight.name for weight in graph.weights if weight.shape == (2, 3)] == ["rows"]


def test_two_views_of_what_forward_changes_are_refused():
    with pytest.raises(UnsupportedError, match="changes a tensor of which it has two views"):
        traced(Cached(torch.zeros(2, 3), read=True))


def test_constants_that_nothing_changes_stay_constants():
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = [torch.arange(3.0)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.numbers[0]

    graph = traced(Reader())
    assert graph.signature.updates == () and graph.weights[0].name != "numbers_0"


def test_a_program_that_others_exported_keeps_its_constants():
    with torch.no_grad():
        program = torch.export.export(Cached(torch.zeros(2, 3)), (X,))
    before = str(program.graph_signature)
    assert traced(program).signature.updates == ("rows",)
    assert str(program.graph_signature) == before


class Total(nn.Module):
    """State in a plain attribute; another one is called as its part's state would be."""

    def __init__(self, part: nn.Module | None = None) -> None:
        super().__init__()
        self.total, self.part_total, self.part = torch.zeros(3), torch.ones(3), part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return self.total * self.part_total + (0 if self.part is None else self.part(x))

    def half(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum(0) / 2
        return self.total * 1


def test_plain_attributes_of_the_model_itself_are_state():
    eager, given = Total(Total()), Total(Total())
    model = aotpack.compile(given, (X,), target="cpu")
    for _ in range(3):
        assert torch.equal(model(X), eager(X))
    assert sorted(model.state) == ["part_total_1", "total"]
    assert torch.equal(given.total, torch.zeros(3)) and not [*given.buffers()]


def test_methods_share_the_plain_attributes_of_their_model():
    eager, given = Total(), Total()
    methods = {"whole": given.forward, "half": given.half}
    made = {name: aotpack.Method(one, (X,)) for name, one in methods.items()}
    model = aotpack.compile(made, target="cpu")
    for _ in range(2):
        assert torch.equal(model.whole(X), eager(X)) and torch.equal(model.half(X), eager.half(X))
    assert len(model.state) == 1


# --- transformers ------------------------------------------------------------------------------


IDS, PLACES = torch.tensor([[3, 1, 4, 1]]), torch.arange(4)
TOKENS = torch.export.Dim("tokens", min=1, max=16)
DYNAMIC = {"input_ids": {1: TOKENS}, "cache_position": {0: TOKENS}}
TINY = {
    "vocab_size": 16,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


@pytest.fixture
def llama():
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**TINY)).eval()
    sizes = {"batch_size": 1, "max_cache_len": 16}
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", cache_config=sizes
    )
    return model


@pytest.mark.parametrize("strict", [False, True])
def test_the_static_cache_of_the_exportable_module(llama, strict):
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    module = TorchExportableModuleWithStaticCache(llama)
    given = {"input_ids": IDS, "cache_position": PLACES}
    options = {"dynamic_shapes": DYNAMIC, "strict": strict, "golden": 0}
    graph = trace(module, (), given, name="m", version="1", **options).graph
    changed = {"cumulative_length_0", "key_cache_0", "value_cache_0"}
    assert set(graph.signature.updates) == changed
    assert [size.name for size in graph.signature.sizes] == ["tokens"]


def test_a_growing_cache_is_refused_with_the_recipe(llama):
    from transformers import DynamicCache

    recipe = "make a StaticCache once.*keep it as an attribute"
    with pytest.raises(TraceError, match=f"(?s)DynamicCache.*{recipe}"):
        trace(llama, (IDS,), name="m", version="1")

    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.llama, self.cache = llama, DynamicCache(config=llama.config)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.llama(input_ids=ids, past_key_values=self.cache).logits

    with pytest.raises(TraceError, match=f"the model has a DynamicCache, cache, which.*{recipe}"):
        trace(Keeping(), (IDS,), name="m", version="1")


class Statistics(nn.Module):
    """Two norms whose running means are one tensor, are exchanged, or are each its own."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.one, self.other, self.how = nn.BatchNorm1d(2), nn.BatchNorm1d(2), how
        self.other.running_mean.add_(3)
        if how == "shared":
            self.other.running_mean = self.one.running_mean
        elif how == "exchanged before":
            self.exchange()

    def exchange(self) -> None:
        one, other = self.one, self.other
        one.running_mean, other.running_mean = other.running_mean, one.running_mean

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "and back" in self.how or "for good" in self.how:
            self.exchange()
        for norm in (self.one, self.other):
            moments = norm.running_mean, norm.running_var
            x = nn.functional.batch_norm(x * 2, *moments, training=True, momentum=0.5)
        if "and back" in self.how:
            self.exchange()
        return x + self.one.running_mean - self.other.running_mean * 3


@pytest.mark.parametrize("how", ["shared", "exchanged before", "exchanged and back", "apart"])
def test_running_statistics_go_where_the_model_has_them(how):
    torch.manual_seed(0)
    model, calls = Statistics(how), torch.randn(3, 5, 2)
    packaged = aotpack.compile(model, (calls[0],), target="cpu")
    for x in calls:
        torch.testing.assert_close(packaged(x), model(x))


def test_statistics_that_are_exchanged_for_good_are_refused():
    with pytest.raises(TraceError, match="assigns the buffer one.running_mean anew; write self"):
        aotpack.compile(Statistics("exchanged for good"), (torch.randn(5, 2),), target="cpu")


class TwoWays(nn.Module):
    """A buffer, and a plain attribute that is a part of it."""

    def __init__(self, in_list: bool = False) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 3))
        self.first = [self.rows[0]] if in_list else self.rows[0]

    def step(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first[0] if isinstance(self.first, list) else self.first
        first.add_(x[0])
        return self.rows + x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(x)


@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("entry", ["step", "forward", ""])
def test_views_that_a_method_reaches_are_seen_as_those_of_its_module(entry, in_list):
    model = TwoWays(in_list).eval()
    with pytest.raises(UnsupportedError, match="changes a tensor of which it has two views"):
        traced(getattr(model, entry) if entry else model)


def test_what_a_module_computed_is_copied_for_its_methods_too():
    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.double = self.weight * 2

        def step(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.double

    assert {weight.shape for weight in traced(Made().step).weights} == {(3,)}


class Viewed(nn.Module):
    """Plain attributes that are views of a weight, whole, in part and turned."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.same, self.part = self.weight.detach(), self.weight.detach()[1:, 1]
        self.turned = self.weight.detach().t()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.turned + self.same.sum() + self.part.prod() + x @ self.weight


def test_views_of_a_weight_follow_it_when_it_is_bound_again():
    model = aotpack.compile(Viewed(), (X,), target="cpu")
    other = Viewed()
    model.bind_weights(other.state_dict())
    fresh = Viewed()
    fresh.load_state_dict(other.state_dict())
    assert torch.allclose(torch.as_tensor(model(X)), fresh(X), rtol=1e-5, atol=1e-5)


def test_a_view_of_a_weight_that_a_method_writes_has_its_new_values():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(2, 3))
            self.first = self.rows[0]

        def put(self, x: torch.Tensor) -> torch.Tensor:
            self.rows.add_(x)
            return x + 1

        def get(self, x: torch.Tensor) -> torch.Tensor:
            return self.first + x

    one = Shared()
    methods = {name: aotpack.Method(getattr(one, name), (X,)) for name in ("put", "get")}
    model = aotpack.compile(methods, target="cpu")
    model.put(X)
    assert torch.equal(torch.as_tensor(model.get(X)), X + 1)


class Rearranged(nn.Module):
    """Calls a view in place on its input, its buffer, or a view of one."""

    def __init__(self, change) -> None:
        super().__init__()
        self.register_buffer("rows", torch.arange(6.0).reshape(2, 3))
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.change(self, x)
        return x * 2 + self.rows.sum()


def in_steps(self, x):
    x.mul_(2)
    x.t_()
    x.unsqueeze_(0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda self, x: x.t_(), "t_ gives x another shape in place"),
        (lambda self, x: x.transpose_(0, 1), "transpose_ gives x another shape in place"),
        (in_steps, r"forward calls t_ and unsqueeze_, which torch does not take for an input"),
        (lambda self, x: self.rows.t_(), "t_ gives rows another shape in place"),
        (lambda self, x: x.t_().t_().t_(), "t_ gives x another shape in place"),
    ],
)
def test_other_shapes_of_inputs_and_buffers_are_refused(change, message, dynamic):
    a, b = (torch.export.Dim(name, min=2, max=6) for name in "ab")
    shapes = {"x": {0: a, 1: b}} if dynamic else None
    message = rf"{message}.*; write a view, as y = x.t\(\) in place of x.t_\(\)\n  at test_state.py"
    with pytest.raises(TraceError, match=message):
        trace(Rearranged(change), (torch.ones(4, 4),), name="m", version="1", dynamic_shapes=shapes)


@pytest.mark.parametrize(
    "change",
    [
        lambda self, x: x.unsqueeze_(0).mul_(1).squeeze_(0),
        lambda self, x: x[:1].t_().unsqueeze_(0),
        lambda self, x: (x * 1).t_(),
        lambda self, x: x[None].squeeze_(),
        lambda self, x: self.rows[:1].squeeze_(),
        lambda self, x: self.rows.view(3, 2).t_().unsqueeze_(0).mul_(1),
        lambda self, x: self.rows.unsqueeze_(0).squeeze_(0),
        lambda self, x: self.rows.detach().squeeze_(),
        lambda self, x: self.rows.detach().t_().detach().unsqueeze_(0),
        lambda self, x: torch.as_strided_(self.rows.detach(), (3, 2), (1, 3)),
        lambda self, x: x.t_().t_(),
        lambda self, x: (x * 1).t_().t_().t_(),
        lambda self, x: self.rows.view(3, 2).swapaxes_(0, 1).swapdims_(0, 1).mul_(1),
    ],
)
def test_views_in_place_that_leave_inputs_as_they_are(change):
    model = aotpack.compile(Rearranged(change), (X,), target="interpreter")
    assert torch.equal(model(X), X * 2 + 15)


def hidden(self, x):
    self.rows.detach().squeeze_()
    if not torch.compiler.is_exporting():
        self.rows.add_(1)


def hidden_in_the_view(self, x):
    rows = self.rows.detach().t_()
    if not torch.compiler.is_exporting():
        rows.add_(1)


def hidden_in_other_memory(self, x):
    self.rows.data.squeeze_()
    if not torch.compiler.is_exporting():
        self.rows.add_(1)


def hidden_behind_one_that_fails(self, x):
    if not torch.compiler.is_exporting():
        with contextlib.suppress(IndexError):
            self.rows[0].unsqueeze_(9)
        self.rows.add_(1)


@pytest.mark.parametrize(
    "change",
    [hidden, hidden_in_the_view, hidden_in_other_memory, hidden_behind_one_that_fails],
)
def test_a_write_beside_views_in_place_is_seen(change):
    with pytest.raises(TraceError, match="forward writes to rows, and not while it is exported"):
        traced(Rearranged(change))


def double(self, x):
    turned = x.view(2, 8).t_().t_()
    turned.mul_(2)


def test_a_refusal_for_sizes_does_not_advise_on_views_in_place():
    sizes = {0: torch.export.Dim("a", min=2, max=6)}
    message = r"a is 4\n  at test_state.py:\d+: turned = x.view[^\n]*\nLeave"
    with pytest.raises(TraceError, match=message) as refusal:
        module = Rearranged(double)
        trace(module, (torch.ones(4, 4),), name="m", version="1", dynamic_shapes={"x": sizes})
    assert "forward calls" not in str(refusal.value)
