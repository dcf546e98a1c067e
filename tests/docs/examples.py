"""Runs a page's examples in order, in one folder: files, Python in one namespace, commands.

Commands of aotpack run in this process, which spares a start of torch for each. As in a reader's
shell, they share neither modules of the folder nor random numbers with the page's Python.
"""

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch

from aotpack.cli import main

from .blocks import Block, blocks

SITE = "site-packages"


def run_page(page: str, name: str, folder: Path) -> int:
    """Run every block of a page that is not exempt; how many there were."""
    found = [block for block in blocks(page) if block.is_run]
    (folder / SITE).mkdir()
    with at(folder), module_of(name) as module:
        for block in found:
            if block.language == "sh":
                for command in commands(block.text):
                    run_command(command)
            elif block.file:
                Path(block.file).write_text(block.text)
            else:
                run_python(block, name, module)
    return len(found)


@contextmanager
def at(folder: Path) -> Iterator[None]:
    """In the folder, from which Python imports; what was imported from there is forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder / SITE)
        patch.syspath_prepend(folder)
        try:
            yield
        finally:
            forget(folder)


def forget(folder: Path) -> dict[str, ModuleType]:
    """Forget what was imported from the folder; those modules by name."""
    forgotten = {}
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(folder):
            forgotten[name] = sys.modules.pop(name)
    return forgotten


@contextmanager
def another_process() -> Iterator[None]:
    """Modules of the folder are imported anew, inside and afterwards; random numbers differ."""
    folder = Path().resolve()
    kept = forget(folder)
    torch.manual_seed(torch.initial_seed() + 1)
    try:
        yield
    finally:
        forget(folder)
        sys.modules.update(kept)
        torch.manual_seed(torch.initial_seed() + 1)


@contextmanager
def module_of(name: str) -> Iterator[ModuleType]:
    """The module whose namespace the Python blocks of a page share."""
    module = ModuleType(f"page_{name}")
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]


def run_python(block: Block, name: str, module: ModuleType) -> None:
    """Run a block from a file of its own, so that errors and Triton find its lines."""
    file = Path(f"{name}_line_{block.line}.py").resolve()
    file.write_text(block.text)
    exec(compile(block.text, file, "exec"), vars(module))


def commands(text: str) -> list[list[str]]:
    """The words of each line, without comments."""
    lines = (shlex.split(line, comments=True) for line in text.splitlines())
    return [words for words in lines if words]


def run_command(words: list[str]) -> None:
    """Run a command as a reader would; AssertionError where it fails, ValueError if unknown."""
    settings: dict[str, str] = {}
    while "=" in words[0]:
        variable, _, value = words[0].partition("=")
        settings[variable] = value
        words = words[1:]
    program, *rest = [path for word in words for path in expanded(word)]
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in settings.items():
            patch.setenv(variable, value)
        if program == "aotpack":
            with another_process():
                assert main(rest) == 0, f"{shlex.join(words)} failed"
        elif program == "python":
            run_process(rest)
        elif [program, *rest[:1]] == ["pip", "install"]:
            for wheel in rest[1:]:
                install(Path(wheel))
        elif program == "ssh-keygen":
            subprocess.run([program, *rest], check=True)
        else:
            accepted = "aotpack, python, ssh-keygen and pip install"
            raise ValueError(f"{shlex.join(words)}: accepted are {accepted}")


def expanded(word: str) -> list[str]:
    """A word of a command, with files in place of a pattern."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def run_process(words: list[str]) -> None:
    """Another Python, which has what was installed."""
    path = os.pathsep.join(filter(None, (SITE, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"python {shlex.join(words)}:\n{done.stdout}{done.stderr}"


def install(wheel: Path) -> None:
    """What pip does with a wheel that has no scripts."""
    if wheel.suffix != ".whl" or not wheel.is_file():
        raise ValueError(f"pip install {wheel}: no such wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(SITE)
