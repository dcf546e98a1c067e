import ast
import hashlib
import inspect
import json
import os
import re
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from safetensors.torch import load_file

from aotpack.emit import check_folder, emit
from aotpack.emit.names import Identity
from aotpack.errors import AotpackError, UsageError
from aotpack.runtime import errors, loading
from aotpack.stages import Emitted

from .builds import IDENTITY, tiny

NAME = "tiny_model-1.0rc1-py3-none-any.whl"
PROVENANCE = f"{NAME}.provenance.json"


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return emit(tiny(), IDENTITY, tmp_path_factory.mktemp("out") / "dist")


def test_only_the_wheel_and_its_provenance_are_left(emitted: Emitted) -> None:
    assert sorted(os.listdir(emitted.wheel.parent)) == [NAME, PROVENANCE]
    assert emitted.as_text().startswith(NAME)


def test_layout(emitted: Emitted) -> None:
    with zipfile.ZipFile(emitted.wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        info = {entry.filename: entry for entry in archive.infolist()}
    assert sorted(names) == [path for path, _ in emitted.files]
    assert {name for name in names if "/_runtime/" not in name} == {
        "tiny_model/SHA256SUMS",
        "tiny_model/__init__.py",
        "tiny_model/__init__.pyi",
        "tiny_model/__main__.py",
        "tiny_model/constants.safetensors",
        "tiny_model/golden.safetensors",
        "tiny_model/kernels/sm_80/k1.cubin",
        "tiny_model/kernels/sm_90/k1.cubin",
        "tiny_model/kernels/sm_90/k2.cubin",
        "tiny_model/kernels/source/k1.py",
        "tiny_model/kernels/source/k2.py",
        "tiny_model/manifest.json",
        "tiny_model/py.typed",
        "tiny_model/weights.safetensors",
        "tiny_model/wrapper.py",
        *(
            f"tiny_model-1.0rc1.dist-info/{name}"
            for name in (
                "METADATA",
                "RECORD",
                "WHEEL",
                "entry_points.txt",
                "licenses/LICENSE.aotpack",
                "sboms/aotpack.cdx.json",
                "top_level.txt",
            )
        ),
    }
    assert names[-1].endswith("RECORD")
    assert info["tiny_model/weights.safetensors"].compress_type == zipfile.ZIP_STORED
    assert info["tiny_model/manifest.json"].compress_type == zipfile.ZIP_DEFLATED


def test_load_has_the_options_of_the_runtime(emitted: Emitted) -> None:
    with zipfile.ZipFile(emitted.wheel) as archive:
        module = ast.parse(archive.read("tiny_model/__init__.py"))
    functions = [one for one in module.body if isinstance(one, ast.FunctionDef)]
    (given,) = [one for one in functions if one.name == "load"]
    ours = ast.parse(inspect.getsource(loading))
    (theirs,) = [o for o in ours.body if isinstance(o, ast.FunctionDef) and o.name == "load"]
    theirs.args.args.remove(theirs.args.args[0])  # the package is the module itself
    assert ast.dump(given.args) == ast.dump(theirs.args)
    documented = re.findall(r"``(\w+)``", ast.get_docstring(given) or "")
    assert {arg.arg for arg in (*given.args.args, *given.args.kwonlyargs)} == {*documented}


def _is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Exception)


def test_the_package_exports_all_errors_of_its_runtime(emitted: Emitted) -> None:
    with zipfile.ZipFile(emitted.wheel) as archive:
        text = archive.read("tiny_model/__init__.py").decode()
    known = {name for name, one in vars(errors).items() if _is_error(one)}
    (exported,) = re.findall(r"__all__ = (\[[^]]*\])", text)
    (imported,) = re.findall(r"from \._runtime import \(([^)]*)\)", text)
    assert {*ast.literal_eval(exported)} == {*known, "Model", "__version__", "load"}
    assert {*re.findall(r"\w+", imported)} == {*known, "Device", "Model", "naming_keywords"}


def test_metadata(emitted: Emitted) -> None:
    with zipfile.ZipFile(emitted.wheel) as archive:
        folder = "tiny_model-1.0rc1.dist-info"
        metadata = archive.read(f"{folder}/METADATA").decode()
        wheel = archive.read(f"{folder}/WHEEL").decode()
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
    lines = metadata.splitlines()
    wanted = ("Version: 1.0rc1", "Requires-Python: >=3.10", "Requires-Dist: cuda-bindings")
    assert all(line in lines for line in (*wanted, "Requires-Dist: numpy"))
    parsed = Metadata.from_email(metadata)  # refuses what the standards do not know
    assert parsed.description_content_type == "text/markdown"
    assert "| `x` | float32 | b x 4 |" in str(parsed.description)
    assert "Operating System :: POSIX :: Linux" in (parsed.classifiers or ())
    assert "Tag: py3-none-any" in wheel and "Root-Is-Purelib: true" in wheel
    assert entry_points == "[aotpack.models]\ntiny_model = tiny_model:load\n"


def test_manifest(emitted: Emitted) -> None:
    with zipfile.ZipFile(emitted.wheel) as archive:
        text = archive.read("tiny_model/manifest.json")
        weights = archive.read("tiny_model/weights.safetensors")
    manifest = json.loads(text)
    assert text.decode() == json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    assert manifest["outputs"][0]["shape"] == ["2*b", 4]
    assert manifest["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    binaries = manifest["kernels"]["k2"]["binaries"]
    assert binaries["sm_80"]["file"] == "kernels/sm_80/k1.cubin"  # the same code, stored once
    assert binaries["sm_90"]["sha256"] == hashlib.sha256(b"two").hexdigest()


def test_the_same_bytes_in_another_folder(emitted: Emitted, tmp_path: Path) -> None:
    again = emit(tiny(), IDENTITY, tmp_path)
    assert again.wheel.read_bytes() == emitted.wheel.read_bytes()
    assert (tmp_path / PROVENANCE).read_bytes() == (
        emitted.wheel.with_name(PROVENANCE).read_bytes()
    )
    other = emit(tiny(weight=bytes(8)), IDENTITY, tmp_path)
    assert other.wheel.read_bytes() != emitted.wheel.read_bytes()


def test_pip_installs_it_and_it_imports(emitted: Emitted, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = ["pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", *install, str(emitted.wheel)], check=True)
    program = "import tiny_model; print(tiny_model.__version__, tiny_model.load.__name__)"
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.stdout == "1.0rc1 load\n", done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "tiny_model", "info"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert "tiny_model(x: float32[b, 4]) -> float32[2*b, 4]" in done.stdout, done.stderr


def test_sidecar_and_none(tmp_path: Path) -> None:
    apart = emit(tiny(), IDENTITY, tmp_path / "apart", weights="sidecar", entry_point=False)
    sidecar = tmp_path / "apart" / "tiny_model-1.0rc1.weights.safetensors"
    assert sorted(os.listdir(apart.wheel.parent)) == [NAME, PROVENANCE, sidecar.name]
    assert load_file(sidecar)["w"].shape == (4,)
    assert not [path for path, _ in apart.files if "weights.safe" in path or "entry_points" in path]
    bare = emit(tiny(), IDENTITY, tmp_path / "bare", weights="none")
    assert sorted(os.listdir(bare.wheel.parent)) == [NAME, PROVENANCE]


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **options: object) -> None:
        raise KeyboardInterrupt

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        emit(tiny(), IDENTITY, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(AotpackError, match="No space left.*Nothing was left there; make room"):
        emit(tiny(), IDENTITY, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_wheel_that_cannot_be_placed_leaves_no_weights_behind(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / ".aotpack-killed").mkdir()
    with pytest.raises(AotpackError, match="failed: Is a directory. Nothing was left there"):
        emit(tiny(), IDENTITY, tmp_path, weights="sidecar")
    assert os.listdir(tmp_path) == [NAME]


def test_a_full_disk_is_one_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(AotpackError, match="into .* failed: File too large.*; make room there"):
            emit(tiny(), IDENTITY, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="is not a folder"):
            emit(tiny(), IDENTITY, out)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/out", "/proc/out/below"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AotpackError, match="is not a folder|writing into /proc/out.* failed: "):
        check_folder(tmp_path / place, "tiny")


def test_the_check_of_a_folder_leaves_nothing(tmp_path: Path) -> None:
    check_folder(tmp_path / "new" / "dist", "tiny")
    assert os.listdir(tmp_path) == []


def test_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="weights='inside'; accepted: embed, sidecar, none"):
        emit(tiny(), IDENTITY, tmp_path, weights="inside")
    with pytest.raises(UsageError, match="version 'new' is not accepted"):
        Identity.of("tiny", "new")
