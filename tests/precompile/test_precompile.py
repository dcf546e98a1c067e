import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from triton import knobs

from aotpack.devices import LARGEST_SPLIT
from aotpack.errors import CompileError
from aotpack.precompile import precompile
from aotpack.precompile.elf import read_resources
from aotpack.precompile.request import Request
from aotpack.stages import Binary, KernelSource
from aotpack.target import INTERPRETER, Target, parse_targets
from tests.precompile.kernels import ADD, BROKEN, GREEDY, kernel, rendered

SM80, SM90 = Target("cuda", 80), Target("cuda", 90)


class Counter:
    """A reporter that remembers how many compilations were announced."""

    def __init__(self) -> None:
        self.total = -1

    def begin(self, what: str, total: int = 0) -> None:
        self.total = total

    def step(self, label: str) -> None:
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("AOTPACK_CACHE", str(folder))
    return folder


@pytest.mark.row("C:L8", "C:B14")
def test_every_kernel_is_compiled_for_every_target_it_is_meant_for() -> None:
    stage = rendered(kernel("b"), kernel("a", arches=((90, 99),)))
    product = precompile(stage, [SM80, SM90, INTERPRETER], jobs=2)
    names = [(binary.target, binary.kernel) for binary in product.binaries]
    assert names == [
        ("interpreter", "a"),
        ("interpreter", "b"),
        ("sm_80", "b"),
        ("sm_90", "a"),
        ("sm_90", "b"),
    ]
    assert set(product.compilers) == {"triton", "ptxas", "ptxas-blackwell"}
    cubin = product.binaries[-1]
    assert (cubin.symbol, cubin.suffix, cubin.num_warps, cubin.num_ctas) == ("b", "cubin", 4, 1)
    assert cubin.registers == read_resources(cubin.code, "b").registers > 0


def test_ptx_is_text_that_any_later_driver_reads(tmp_path: Path) -> None:
    stage, targets = rendered(kernel("a"), kernel("b")), parse_targets("sm_90+PTX")
    product = precompile(stage, targets, jobs=1)
    names = [(binary.target, binary.kernel, binary.suffix) for binary in product.binaries]
    assert names == [
        ("ptx_89", "a", "ptx"),
        ("ptx_89", "b", "ptx"),
        ("sm_90", "a", "cubin"),
        ("sm_90", "b", "cubin"),
    ]
    text = product.binaries[0].code.decode()
    assert ".version 8.1\n.target sm_89\n" in text and ".visible .entry a(" in text
    assert product.binaries[0].registers > 0
    (tmp_path / "a.ptx").write_text(text)
    later = [
        knobs.nvidia.ptxas_blackwell.path,
        "-arch=sm_100",
        tmp_path / "a.ptx",
        "-o",
        "/dev/null",
    ]
    subprocess.run(later, check=True)
    counter = Counter()
    assert precompile(stage, targets, progress=counter) == product and counter.total == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"code": b".target sm_89\n"}, "has no kernel a"),
        ({"code": b".target sm_90a\n.visible .entry a("}, "is no PTX for sm_89"),
        ({"suffix": "cubin"}, "is no PTX for sm_89"),
        ({"target": "sm_89"}, "it is the kernel a for sm_89"),
    ],
)
def test_text_of_something_else_is_found(changed: dict[str, Any], message: str) -> None:
    request = Request.of(kernel("a"), Target("ptx", 89))
    text = b".version 8.1\n.target sm_89\n.visible .entry a(\n"
    good = Binary("a", "ptx_89", "a", text, "ptx", 4, 1, 0, 0, 1, 32, 0)
    request.check(good)
    with pytest.raises(ValueError, match=message):
        request.check(replace(good, **changed))


def test_the_interpreter_gets_the_text() -> None:
    product = precompile(rendered(kernel("a")), [INTERPRETER])
    assert product.binaries[0].code.decode() == ADD.format(name="a")
    assert product.compilers == {}


def test_kernels_of_a_method_share_a_split_of_memory_that_some_are_for() -> None:
    plain, codes = kernel("a"), replace(kernel("b"), shared_split=LARGEST_SPLIT)
    many = replace(kernel("c"), shared_split=225 * 1024)
    targets = [SM80, SM90, INTERPRETER]

    def splits(*kernels: KernelSource) -> list[int]:
        product = precompile(rendered(*kernels), targets, jobs=1)
        return [one.carveout for one in product.binaries if one.target != "sm_80"]

    assert splits(plain, codes, many) == [0, 0, 0, 60, 60, 100]
    assert splits(replace(codes, shared_split=97 * 1024)) == [0, 46]
    assert splits(plain, many) == [0, 0, 0, 0]
    assert splits(plain, replace(codes, arches=((80, 89),))) == [0, 0, 0]
    methods = {"one": rendered(plain, codes), "other": rendered(many)}
    joined = replace(rendered(plain, codes, many), methods=methods)
    product = precompile(joined, [SM90], jobs=1)
    assert [one.carveout for one in product.binaries] == [60, 60, 0]
    apart = replace(joined, methods={"one": rendered(codes), "other": rendered(plain, many)})
    assert [one.carveout for one in precompile(apart, [SM90], jobs=1).binaries] == [0, 60, 0]


def test_attention_of_clusters_runs_beside_no_kernel_that_asks_for_a_split() -> None:
    codes = replace(kernel("b"), shared_split=97 * 1024)
    attention = replace(kernel("a"), reads_early=True, cluster_size=2)

    def shared(one: KernelSource) -> list[int]:
        return [b.shared for b in precompile(rendered(one, codes), [SM90], jobs=1).binaries]

    alone, other = shared(attention)
    assert other == 0 and alone + 1024 + other + 1024 > 132 * 1024 >= alone + 1024
    assert shared(replace(attention, cluster_size=1)) == [0, 0]
    assert shared(replace(attention, reads_early=False)) == [0, 0]
    unasked = precompile(rendered(attention, kernel("b")), [SM90], jobs=1)
    assert [one.shared for one in unasked.binaries] == [0, 0]


def test_a_kernel_that_does_not_fit_in_the_split_has_that_of_the_driver() -> None:
    codes = replace(kernel("b"), shared_split=LARGEST_SPLIT)
    large = kernel("a", GREEDY.replace("num_stages=8", "num_stages=3"))
    product = precompile(rendered(large, codes), [SM90], jobs=1)
    assert [one.carveout for one in product.binaries] == [0, 60]
    assert [line.rpartition("  ")[2] for line in product.as_text().splitlines()] == [
        "carveout",
        "-",
        "60%",
    ]
    assert product.binaries[0].shared + 1024 > LARGEST_SPLIT


@pytest.mark.row("C:L8")
def test_a_second_build_compiles_nothing(cache: Path) -> None:
    stage, first, second = rendered(kernel("a")), Counter(), Counter()
    one = precompile(stage, [SM90], progress=first)
    two = precompile(stage, [SM90], progress=second)
    assert (first.total, second.total) == (1, 0)
    assert one == two


def test_a_damaged_cache_entry_is_built_again(cache: Path) -> None:
    stage, counter = rendered(kernel("a")), Counter()
    one = precompile(stage, [SM90])
    (entry,) = (path for path in cache.rglob("*") if path.is_file())
    entry.write_bytes(entry.read_bytes()[:-20])
    assert precompile(stage, [SM90], progress=counter) == one
    assert counter.total == 1


def test_bytes_depend_on_no_folder_process_or_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = rendered(kernel("a"), kernel("b"))
    monkeypatch.setenv("AOTPACK_CACHE", "off")
    one = precompile(stage, [SM80, SM90], jobs=2)
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "0")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert precompile(stage, [SM80, SM90], jobs=1) == one


def test_a_compiler_failure_names_kernel_target_cause_and_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTPACK_DUMP", str(tmp_path / "dump"))
    with pytest.raises(CompileError, match="kernel bad for sm_90 failed") as caught:
        precompile(rendered(kernel("bad", BROKEN)), [SM90])
    message = str(caught.value)
    assert "no_such_name" in message
    command = message.rsplit("To repeat: ", 1)[1].split(" ", 1)[1]
    again = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True)
    assert again.returncode != 0 and "no_such_name" in again.stderr


@pytest.mark.row("C:K3")
@pytest.mark.parametrize("text", [BROKEN, GREEDY], ids=["broken", "greedy"])
def test_a_candidate_that_cannot_be_had_is_left_out(text: str) -> None:
    spare = replace(kernel("other", text), is_spare=True)
    product = precompile(rendered(kernel("a"), spare), [Target("cuda", 86)])
    assert [binary.kernel for binary in product.binaries] == ["a"]


@pytest.mark.row("C:L5")
def test_too_much_shared_memory_is_refused_at_build_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTPACK_DUMP", str(tmp_path))
    with pytest.raises(
        CompileError, match=r"needs \d+ bytes of shared memory and sm_86 offers 101376"
    ):
        precompile(rendered(kernel("greedy", GREEDY)), [Target("cuda", 86)])


def test_fewer_stages_take_the_shared_memory_there_is() -> None:
    deep = replace(kernel("staged", GREEDY.replace(", num_stages=8", "")), num_stages=4)
    (binary,) = precompile(rendered(deep), [Target("cuda", 86)]).binaries
    assert 32_768 < binary.shared <= 101_376


@pytest.mark.usefixtures("workers_of_builds")
def test_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))
    precompile(rendered(kernel("a")), [SM90])
    assert list(room.iterdir()) == []


def test_binaries_print_as_a_table() -> None:
    text = precompile(rendered(kernel("a")), [INTERPRETER]).as_text()
    assert text.splitlines()[1].startswith("interpreter  a  ")


def test_a_binary_is_a_value() -> None:
    product = precompile(rendered(kernel("a")), [SM90])
    assert isinstance(hash(product.binaries[0]), int) and isinstance(product.binaries[0], Binary)
