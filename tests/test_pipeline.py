"""The six calls together: dumps, determinism, and a loaded callable through the same stages."""

import copy
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import aotpack
from aotpack.cli import main
from aotpack.errors import AotpackError, TraceError, UsageError
from aotpack.instrumentation import STAGES, Instrumentation
from aotpack.ir.kernels.kernel import arch_range
from aotpack.ir.program import Program
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile.interpreter.device import PLAN_ARCH
from aotpack.progress import PlainLines
from aotpack.schedule import PASSES
from aotpack.stages import Rendered
from aotpack.target import SUPPORTED_ARCHES, Target, parse_targets


class Small(nn.Module):
    """A linear layer, an activation and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.nn.functional.silu(self.linear(x)))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Small().eval()


X = torch.linspace(-2, 2, 64).reshape(4, 16)


def test_compile_gives_a_callable_that_agrees_with_eager(model: nn.Module) -> None:
    with aotpack.compile(model, (X,), target="interpreter") as compiled:
        torch.testing.assert_close(compiled(X), model(X).detach())


@pytest.mark.parametrize(
    ("function", "keyword", "answer"),
    [
        (aotpack.compile, "targets", "did you mean 'target'"),
        (aotpack.build, "target", "did you mean 'targets'"),
        (aotpack.build, "wieghts", "did you mean 'weights'"),
        (aotpack.compile, "zzz", "accepted: module, args, kwargs, dynamic_shapes, target, "),
    ],
)
def test_a_keyword_that_is_not_taken_is_answered_with_those_that_are(
    model: nn.Module, function: Callable[..., Any], keyword: str, answer: str
) -> None:
    told = rf"{function.__name__}\(\) takes no keyword '{keyword}'; {answer}"
    with pytest.raises(UsageError, match=told):
        function(model, (X,), **{keyword: "cpu"})


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_targets_without_a_gpu_take_no_device(model: nn.Module, target: str) -> None:
    with pytest.raises(
        UsageError, match=rf"device=3 is given for the target {target}, which .*GPU"
    ):
        aotpack.compile(model, (X,), target=target, device=3)


@pytest.mark.parametrize("target", ["cpu,sm_90", "all", "sm_80, sm_90"])
def test_compile_takes_one_target(model: nn.Module, target: str) -> None:
    with pytest.raises(
        UsageError, match=rf"target='{target}' is several targets; compile takes one, .*build takes"
    ):
        aotpack.compile(model, (X,), target=target)


def test_dynamic_sizes_change_from_call_to_call(model: nn.Module) -> None:
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=40)}}
    compiled = aotpack.compile(model, (X,), dynamic_shapes=shapes, target="interpreter")
    for rows in (1, 7, 40):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x), model(x).detach())


@pytest.mark.parametrize("dtype", ["float64", torch.float64], ids=["name", "torch"])
def test_weights_and_floating_inputs_are_cast_first(model: nn.Module, dtype: Any) -> None:
    with aotpack.compile(model, (X,), target="interpreter", dtype=dtype) as compiled:
        result = compiled(X.double())
    torch.testing.assert_close(result, copy.deepcopy(model).double()(X.double()).detach())
    assert model.linear.weight.dtype is torch.float32


@pytest.mark.parametrize(
    ("dtype", "near"),
    [
        ("half", "; did you mean 'float16'?"),
        ("int32", ""),
        (torch.int32, ""),
        ("float8_e5m2", "; codes of 8 bits are made by --quantize int8 or fp8, quantize='int8' "),
        ("int8", "; codes of 8 bits are made by"),
    ],
    ids=str,
)
def test_a_model_is_cast_to_no_other_type(dtype: Any, near: str, tmp_path: Path) -> None:
    accepted = r"dtype .* is not accepted; float16, bfloat16, float32, float64 are"
    with pytest.raises(UsageError, match=accepted + re.escape(near) + ("$" if not near else "")):
        aotpack.build(Small(), (X,), dtype=dtype, out=tmp_path)


def test_the_command_line_and_python_build_the_same_wheel(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(
        "import torch\nmodel = torch.nn.Softplus()\nexample_inputs = (torch.ones(2, 3),)\n"
    )
    options = "--target interpreter --dtype bfloat16 --strict --check-indices".split()
    assert main([str(tmp_path / "tiny.py"), "-o", str(tmp_path / "one"), *options]) == 0
    other = aotpack.build(
        nn.Softplus(),
        (torch.ones(2, 3),),
        name="tiny",
        targets="interpreter",
        out=tmp_path / "other",
        dtype=torch.bfloat16,
        strict=True,
        check_indices=True,
    )
    assert (tmp_path / "one" / other.name).read_bytes() == other.read_bytes()


class Breaking(nn.Module):
    """What torch.export takes, but not in its strict mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1


def test_strict_mode_is_a_choice() -> None:
    with aotpack.compile(Breaking(), (X,), target="interpreter") as compiled:
        assert torch.equal(compiled(X), X + 1)
    with pytest.raises(TraceError, match="graph_break"):
        aotpack.compile(Breaking(), (X,), target="interpreter", strict=True)


def test_compile_leaves_no_folder(
    model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiled = aotpack.compile(model, (X,), target="interpreter")
    assert list(tmp_path.iterdir()) == []
    compiled.close()


def test_compile_for_native_without_a_gpu_is_refused(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aotpack.target.device_arch", lambda: None)
    with pytest.raises(UsageError, match="no driver with a GPU was found"):
        aotpack.compile(model, (X,))


def test_an_unknown_target_is_refused_before_tracing() -> None:
    with pytest.raises(AotpackError, match="'sm_1' is not supported"):
        aotpack.build(Small(), (), targets="sm_1")


def test_every_stage_is_dumped_and_timed(model: nn.Module, tmp_path: Path) -> None:
    hook = Instrumentation(dump=tmp_path / "dump")
    _ = Build(
        Source(model, (X,)), BuildOptions((Target("cuda", 90),), out=tmp_path / "dist"), hook
    ).emitted
    names = [path.name for path in sorted((tmp_path / "dump").iterdir())]
    passes = [f"03_{number:02}_{one.name}.txt" for number, one in enumerate(PASSES, 1)]
    stages = [f"{number:02}_{stage}.txt" for number, stage in enumerate(STAGES, 1)]
    assert names == sorted([*passes, "03_passes.txt", *stages])
    assert list(hook.seconds) == list(STAGES)
    assert all(path.read_text() for path in (tmp_path / "dump").iterdir())


def twice(program: Program) -> Program:
    """A pass of the user."""
    return program


def test_passes_of_the_user_are_dumped_and_timed(model: nn.Module, tmp_path: Path) -> None:
    hook = Instrumentation(dump=tmp_path)
    options = BuildOptions(passes=(twice, lambda program: program))
    _ = Build(Source(model, (X,)), options, hook).lowered
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        *("01_traced.txt", "02_01_twice.txt", "02_02__lambda_.txt"),
        *("02_lowered.txt", "02_passes.txt"),
    ]
    assert (tmp_path / "02_01_twice.txt").read_text() == (tmp_path / "02_lowered.txt").read_text()
    times = (tmp_path / "02_passes.txt").read_text().splitlines()
    assert [line.split()[-1] for line in times] == ["02_01_twice", "02_02__lambda_"]


def test_a_pass_that_runs_for_parts_and_architectures_is_one_file(tmp_path: Path) -> None:
    """Each of its runs with a head; a dump is not added to the one before."""

    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
            chosen = torch.cond(flag, lambda x: x.exp(), lambda x: x + 1, (x,))
            return chosen.softmax(1)

    source = Source(Chosen(), (torch.zeros(4, 200_000), torch.tensor(True)))
    for _ in range(2):
        made = Build(source, BuildOptions(), Instrumentation(dump=tmp_path)).scheduled
        assert made.per_arch
    (fused,) = tmp_path.glob("03_*_fuse.txt")
    heads = re.findall("^# .*", fused.read_text(), re.MULTILINE)
    assert [head.split(" of ")[0] for head in heads] == [
        "# part 1",
        "# part 2",
        *(f"# on {arch_range(one.arch_low, one.arch_high)}" for one in made.per_arch),
    ]


def test_what_is_under_way_is_named_by_its_verb(model: nn.Module, tmp_path: Path) -> None:
    lines = io.StringIO()
    hook = Instrumentation(PlainLines(lines))
    _ = Build(Source(model, (X,)), BuildOptions((Target("cuda", 90),), out=tmp_path), hook).emitted
    words = [line.split()[0] for line in lines.getvalue().splitlines()]
    assert list(dict.fromkeys(words)) == [
        *("trace", "lower", "schedule", "render", "precompile", "compile", "emit")
    ]


@pytest.mark.row("S:inv8", "S:inv43", "C:L7")
def test_two_builds_in_two_folders_give_the_same_bytes(
    model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = []
    for place in ("one", "other"):
        monkeypatch.setenv("AOTPACK_CACHE", str(tmp_path / place / "cache"))
        out = tmp_path / place / "dist"
        wheels.append(aotpack.build(model, (X,), name="small", targets="sm_80", out=out))
    with zipfile.ZipFile(wheels[0]) as one, zipfile.ZipFile(wheels[1]) as other:
        assert one.namelist() == other.namelist()
        assert [n for n in one.namelist() if one.read(n) != other.read(n)] == []
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_the_look_hook_sees_products_in_order(model: nn.Module) -> None:
    seen: list[str] = []
    hook = Instrumentation(look=lambda stage, product: seen.append(stage))
    _ = Build(Source(model, (X,)), BuildOptions(parse_targets("sm_90")), hook).rendered
    assert seen == ["traced", "lowered", "scheduled", "rendered"]


def launched(rendered: Rendered, arch: int, *sizes: int) -> set[str]:
    """The kernels that the wrapper picks for an arch and sizes."""
    text = rendered.wrapper.replace("from ._runtime", "from aotpack.runtime")
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return {launch.kernel for launch in namespace["plan"](arch, *sizes).launches}


@pytest.fixture(scope="module")
def for_all_targets(model: nn.Module) -> Rendered:
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=4096)}}
    source = Source(model, (X,), dynamic_shapes=shapes)
    return Build(source, BuildOptions(parse_targets("all"))).rendered


@pytest.mark.row("C:B14", "C:B15", "C:H14", "C:inv26")
@pytest.mark.parametrize("arch", [*SUPPORTED_ARCHES, PLAN_ARCH])
def test_every_launch_has_its_binary_on_every_target(for_all_targets: Rendered, arch: int) -> None:
    built = {k.name for k in for_all_targets.kernels if k.is_for(arch)}
    for batch in (1, 16, 100, 300, 700, 1000, 4096):
        assert launched(for_all_targets, arch, batch) <= built
