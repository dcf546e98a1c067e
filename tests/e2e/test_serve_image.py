"""The Dockerfile of the example service, step by step in a folder, with commands of its own.

``pip`` links what this environment has instead of fetching it; nothing else of it can be imported.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tools import check_llm

from .serving import free_port

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "serve_llm" / "Dockerfile"
PIP = """
import importlib.metadata, os, sys, zipfile
from pathlib import Path
sys.path += os.environ["HERE"].split(":")
from packaging.requirements import Requirement
site, seen = Path(os.environ["PYTHONPATH"]), set()

def link(text):
    asked = Requirement(text)
    if asked.name in seen or asked.marker and not asked.marker.evaluate({"extra": ""}):
        return
    seen.add(asked.name)
    found = importlib.metadata.distribution(asked.name)
    assert asked.specifier.contains(found.version), text
    for name in {file.parts[0] for file in found.files if file.parts[0] not in ("..", ".")}:
        place = site / name
        place.exists() or place.symlink_to(found.locate_file(name))
    for one in found.requires or ():
        link(one)

for given in [one for one in sys.argv[2:] if not one.startswith("-")]:
    if given.endswith(".whl"):
        zipfile.ZipFile(given).extractall(site)
        (info,) = site.glob(f"{Path(given).name.split('-')[0]}-*.dist-info/METADATA")
        for line in info.read_text().splitlines():
            if line.startswith("Requires-Dist: "):
                link(line.removeprefix("Requires-Dist: "))
    else:
        link(given)
"""


class Image:
    """A folder that instructions fill."""

    def __init__(self, context: Path, place: Path, package: str) -> None:
        self.context, self.place, self.package = context, place, package
        self.workdir, self.check, self.start = place, "", ""
        self.site, commands = place / "site", place / "bin"
        for folder in self.site, commands:
            folder.mkdir(parents=True)
        (place / "pip.py").write_text(PIP)
        for name, line in {
            "python": f'exec "{sys.executable}" -S "$@"',
            "pip": f'exec "{sys.executable}" -S {place / "pip.py"} "$@"',
            "useradd": "exit 0",
        }.items():
            (commands / name).write_text(f"#!/bin/sh\n{line}\n")
            (commands / name).chmod(0o755)
        self.env = {
            "PATH": f"{commands}:/usr/bin:/bin",
            "PYTHONPATH": str(self.site),
            "HERE": ":".join(path for path in sys.path if path.endswith("site-packages")),
            "HOME": str(place),
        }

    def follow(self, word: str, rest: str) -> None:
        """One instruction."""
        if word == "ARG":
            self.env[rest] = self.package
        elif word == "ENV":
            given = rest.replace("${PACKAGE}", self.package)
            self.env.update(pair.split("=", 1) for pair in shlex.split(given))
        elif word == "WORKDIR":
            self.workdir = self.place / rest.lstrip("/")
            self.workdir.mkdir(parents=True)
        elif word == "COPY":
            self._copy(*shlex.split(rest.replace("${PACKAGE}", self.package)))
        elif word == "RUN":
            self.run(rest)
        elif word == "CMD":
            self.start = rest
        elif word == "HEALTHCHECK":
            self.check = rest.partition("CMD ")[2]
        else:
            assert word in ("FROM", "USER", "EXPOSE")

    def _copy(self, *names: str) -> None:
        *sources, target = names
        for source in sources:
            found = [*self.context.glob(source)]
            assert found, source
            (self.workdir / target).mkdir(exist_ok=True)
            for path in found:
                shutil.copy(path, self.workdir / target)

    def run(self, command: str) -> None:
        subprocess.run(["sh", "-c", command], cwd=self.workdir, env=self.env, check=True)


def instructions(text: str) -> list[tuple[str, str]]:
    """The words that begin instructions, and what stands behind them."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(None, 1)[1]) for line in whole]


@pytest.fixture(scope="module")
def context(
    once: Callable[[str, Callable[[Path], object]], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    made = tmp_path_factory.mktemp("context")
    (made / "dist").symlink_to(once("llm", lambda folder: check_llm.build("gemma3", folder)))
    (made / "examples").symlink_to(ROOT / "examples")
    return made


def test_the_image_serves_without_torch(context, tmp_path):
    port = str(free_port())
    image = Image(context, tmp_path / "image", "tiny_gemma3")
    for word, rest in instructions(FILE.read_text().replace("8000", port)):
        image.follow(word, rest)
    names = {path.name.partition("-")[0] for path in image.site.iterdir()}
    assert {"tiny_gemma3", "numpy", "fastapi"} <= names
    assert not names & {"torch", "triton", "transformers", "aotpack"}
    command = ["sh", "-c", image.start]
    with subprocess.Popen(command, cwd=image.workdir, env=image.env) as service:
        try:
            assert is_well(image)
            body = {"prompt": "x", "max_tokens": 5}
            url = f"http://127.0.0.1:{port}"
            found = httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()
            assert found["usage"]["completion_tokens"] == 5
            assert "<h1>Chat</h1>" in httpx.get(url).text
        finally:
            service.send_signal(signal.SIGTERM)  # as docker stop
        assert service.wait(30) in (0, -signal.SIGTERM)
    with pytest.raises(subprocess.CalledProcessError):
        image.run(image.check)


def is_well(image: Image) -> bool:
    """True as soon as the check of the image's health passes."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            image.run(f"{image.check} 2>{os.devnull}")
        except subprocess.CalledProcessError:
            time.sleep(0.2)
        else:
            return True
    return False


def test_a_step_without_its_files_is_found(context, tmp_path):
    image = Image(context, tmp_path / "image", "tiny_gemma3")
    with pytest.raises(AssertionError, match="gone.py"):
        image.follow("COPY", "examples/llm/gone.py ./")
    with pytest.raises(subprocess.CalledProcessError):
        image.follow("RUN", "! python -c 'import json'")
