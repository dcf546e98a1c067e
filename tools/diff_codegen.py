"""What a change does to generated code: kernels and wrappers of the examples, in two commits.

    python tools/diff_codegen.py [OLD [NEW]]        OLD: HEAD; NEW: the working tree

Prints a unified diff; exits with 0 when it is empty.
"""

import contextlib
import difflib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary work tree of a commit, importable without installing it."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, "tree")
        git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            if not (tree / "aotpack" / "templates").exists():
                (tree / "aotpack" / "templates").symlink_to(tree / "templates")
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*words: str) -> None:
    """Run git in the project."""
    subprocess.run(["git", *words], cwd=ROOT, check=True)


def generated(tree: Path) -> dict[str, list[str]]:
    """Example -> the lines of everything rendered for it, by the code of ``tree``."""
    return {file.name: render(tree, file) for file in sorted((tree / "examples").glob("*.py"))}


def render(tree: Path, example: Path) -> list[str]:
    """``aotpack show --stage rendered`` of an example; its complaint where there is no product."""
    command = [sys.executable, "-m", "aotpack", "show", str(example), "--stage", "rendered"]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    text = done.stdout if done.returncode == 0 else done.stderr
    return text.splitlines(keepends=True)


def main() -> int:
    """Print the differences."""
    commits = sys.argv[1:] or ["HEAD"]
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(checkout(commit)) for commit in commits[:2]]
        old, new = (generated(tree) for tree in [*trees, ROOT][:2])
    differs = False
    for name in sorted({*old, *new}):
        lines = difflib.unified_diff(
            old.get(name, []), new.get(name, []), f"{commits[0]}/{name}", f"new/{name}"
        )
        for line in lines:
            differs = True
            sys.stdout.write(line)
    return 1 if differs else 0


if __name__ == "__main__":
    raise SystemExit(main())
