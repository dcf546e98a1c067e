"""Run a wheel of examples/bert_base.py with nothing else installed: a test of the closed package.

    python tools/bare_run.py WHEEL [--sizes 1x128,32x128,...]

Installs the wheel read-only beside numpy and cuda-bindings alone, runs it there as another user
with an empty PATH and an empty home, PTX compilation forbidden, and compares the answers with eager
by the accuracy law. The child counts the reports of Python's audit hooks: processes started, files
opened for writing, sockets.
"""

import argparse
import copy
import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
SIZES = "1x128,32x128,7x33,64x512,1x1"
NOBODY = 65534

CHILD = r"""
import sys, time
start = time.perf_counter()
sys.path.append(sys.argv[1])  # -I -S: nothing but the standard library is there yet
events = {"process": [], "write": [], "socket": []}
PROCESSES = "subprocess.Popen os.exec os.fork os.forkpty os.posix_spawn os.system".split()
def hook(name, args):
    if name in PROCESSES:
        events["process"].append(name)
    elif name == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        events["write"].append(str(args[0]))
    elif name == "open" and args[1] is None and args[2] & 3:
        events["write"].append(str(args[0]))
    elif name.startswith("socket."):
        events["socket"].append(name)
sys.addaudithook(hook)
import json, struct
import numpy
package, weights, file = sys.argv[2:5]
inputs = numpy.load(file)
began = time.perf_counter()
module = __import__(package)
imported = time.perf_counter()
model = module.load(device=0, weights=weights)
loaded = time.perf_counter()
model(inputs[inputs.files[0]])
first = time.perf_counter()
outputs = [model(inputs[name]) for name in inputs.files]
report = {
    "python and numpy": began - start, "import": imported - began, "load": loaded - imported,
    "first call": first - loaded, "import to first output": first - began, "events": events,
    "foreign modules": sorted({"torch", "triton", "sympy", "jinja2", "aotpack"} & set(sys.modules)),
    "memory": model.memory,
}
model.close()
text = json.dumps(report).encode()
out = sys.stdout.buffer
out.write(struct.pack("<q", len(text)) + text)
for array in outputs:
    out.write(numpy.ascontiguousarray(array, numpy.float32).tobytes())
out.flush()
"""


def bare_site(wheel: Path, folder: Path) -> Path:
    """A folder with the wheel's packages, numpy and cuda-bindings, that its user cannot write."""
    site = folder / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-compile",
    ]
    subprocess.run([*command, "--target", str(site), str(wheel)], check=True)
    for package in ("numpy", "numpy.libs", "cuda"):
        source = Path(sysconfig.get_path("purelib")) / package
        if source.exists():
            shutil.copytree(source, site / package, ignore=shutil.ignore_patterns("tests"))
    for path in [site, *site.rglob("*")]:
        path.chmod(0o555 if path.is_dir() or ".so" in path.name else 0o444)
    return site


def named_weights(module: torch.nn.Module, wheel: Path) -> dict[str, torch.Tensor]:
    """The weights of the wheel, by their names in the module."""
    package = wheel.name.split("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        manifest = json.loads(archive.read(f"{package}/manifest.json"))
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = [weight["name"] for weight in manifest["weights"]]
    return {name: tensors[name].detach().contiguous().cpu() for name in names}


def run_child(site: Path, package: str, weights: Path, inputs: Path, folder: Path) -> bytes:
    """The bytes on standard output of the bare interpreter."""
    home = folder / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    environment = {
        "PATH": str(home),
        "HOME": str(home),
        "CUDA_DISABLE_PTX_JIT": "1",
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
    }
    base = os.path.realpath(sys.executable)
    command = [base, "-I", "-S", "-B", "-c", CHILD, str(site)]
    user = {"user": NOBODY, "group": NOBODY} if os.getuid() == 0 else {}
    done = subprocess.run(
        [*command, package, str(weights), str(inputs)],
        env=environment,
        cwd=home,
        capture_output=True,
        **user,
    )
    if done.returncode:
        raise SystemExit(f"the bare run failed:\n{done.stderr.decode()[-3000:]}")
    left = [str(path.relative_to(home)) for path in home.rglob("*")]
    print("files left in the home folder:", left or "none")
    return done.stdout


def compare(
    module: torch.nn.Module, shapes: list[tuple[int, int]], ids: list[torch.Tensor], data: bytes
) -> bool:
    """Print the errors of each shape; True when all obey the accuracy law."""
    exact, good = copy.deepcopy(module).double(), True
    for (batch, sequence), one in zip(shapes, ids, strict=True):
        with torch.no_grad():
            eager, reference = module(one).double(), exact(one)
        count = eager.numel()
        ours = torch.from_numpy(np.frombuffer(data[: 4 * count], np.float32).copy())
        data = data[4 * count :]
        ours = ours.reshape(eager.shape).to(eager.device).double()
        own, theirs = ((x - reference).abs().max().item() for x in (ours, eager))
        limit = 1.5 * theirs + torch.finfo(torch.bfloat16).eps * reference.abs().max().item()
        good &= own <= limit
        verdict = "ok" if own <= limit else "WRONG"
        print(
            f"({batch},{sequence}): error {own:.4f}, eager {theirs:.4f}, limit {limit:.4f}",
            verdict,
        )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--sizes", default=SIZES)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "examples"))
    import bert_base

    module = bert_base.model.eval().cuda()
    shapes = [tuple(map(int, size.split("x"))) for size in given.sizes.split(",")]
    ids = [torch.randint(0, 30000, shape, device="cuda") for shape in shapes]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        weights, inputs = folder / "weights.safetensors", folder / "inputs.npz"
        save_file(named_weights(module, given.wheel), weights)
        np.savez(inputs, *[one.cpu().numpy() for one in ids])
        for path in (weights, inputs):
            path.chmod(0o444)
        site = bare_site(given.wheel, folder)
        output = run_child(site, given.wheel.name.split("-")[0], weights, inputs, folder)
    (length,) = struct.unpack("<q", output[:8])
    report = json.loads(output[8 : 8 + length])
    for key, value in report.items():
        print(f"{key}: {value:.3f} s" if isinstance(value, float) else f"{key}: {value}")
    closed = not any(report["events"].values()) and not report["foreign modules"]
    if not compare(module, shapes, ids, output[8 + length :]) or not closed:
        raise SystemExit("the package is not closed, or wrong")


if __name__ == "__main__":
    main()
