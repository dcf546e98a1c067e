"""The effect of a change on generated code, over the corpus of ``tools/codegen_corpus.py``.

    python tools/diff_codegen.py [OLD [NEW]] [--ignore-names] [--renamed OLD=NEW] [--renamed FILE]

A side is a commit, or a folder that ``tools/codegen_corpus.py`` made; OLD is HEAD unless given, NEW
the working tree. Prints a unified diff, and how many models were compared; exits with 0 when the
diff is empty and no side refuses a model. A model that one side lacks is named, and is no
difference.

With ``--ignore-names`` comments are dropped and digests in names are numbered as they appear, so
that headers and names alone may differ; each ``--renamed`` then gives a text of OLD its text in
NEW (or a file has a pair in each line). A text that is part of a longer word is not found
(``_sum_`` with its underscores is, in ``x_sum_1``).
"""

import argparse
import contextlib
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tools" / "codegen_corpus.py"
_COMMENT = re.compile(r"^ *(?:#(?: .*)?|//.*)\n|  (?:#|//) .*$", re.MULTILINE)
_PAIR = re.compile(r"(\S|\S.*?\S)=(\S|\S.*\S)")  # the sign between them has no spaces around it
_DIGEST = re.compile(r"_([0-9a-f]{8})(?![0-9a-zA-Z])")


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary work tree of a commit, importable without installing it."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, "tree")
        git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            link_templates(tree)
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def link_templates(tree: Path) -> None:
    """Put templates where the package has them, as an installation would."""
    if not (tree / "aotpack" / "templates").exists():
        (tree / "aotpack" / "templates").symlink_to(tree / "templates")


def git(*words: str) -> None:
    """Run git in the project."""
    subprocess.run(["git", *words], cwd=ROOT, check=True)


@contextlib.contextmanager
def corpus_of(side: str | None, jobs: int) -> Iterator[Path]:
    """The folder of a side: itself, or made from a commit, or from the working tree for None."""
    if side is not None and Path(side).is_dir():
        yield Path(side)
        return
    with contextlib.ExitStack() as stack:
        tree = ROOT if side is None else stack.enter_context(checkout(side))
        out = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_corpus(tree, out, jobs)
        yield out


def make_corpus(tree: Path, out: Path, jobs: int) -> None:
    """Render the corpus with the code of ``tree``, in as many processes."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(CORPUS), str(tree), str(out), f"{part}/{jobs}"],
            cwd=tree,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        for part in range(1, jobs + 1)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"rendering the corpus with {tree} failed: run {CORPUS.name} to see why")


def normal(text: str, renamed: Mapping[str, str] = {}) -> str:
    """The text without comments, with digests numbered, and with texts renamed."""
    text = _COMMENT.sub("", text)
    if renamed:
        longest_first = sorted(renamed, key=len, reverse=True)
        anyone = "|".join(map(_whole, longest_first))
        text = re.sub(anyone, lambda found: renamed[found[0]], text)
    numbers: dict[str, int] = {}
    return _DIGEST.sub(lambda found: f"_#{numbers.setdefault(found[1], len(numbers))}", text)


def _whole(text: str) -> str:
    """The pattern of a text that is not part of longer words, but where it ends in underscores."""
    before, after = (r"(?<!\w)", r"(?!\w)")
    starts, ends = re.match(r"[^\W_]", text), re.search(r"[^\W_]$", text)
    return f"{before if starts else ''}{re.escape(text)}{after if ends else ''}"


def pairs(given: Iterable[str]) -> dict[str, str]:
    """The pairs of ``--renamed``, from arguments and files."""
    found = {}
    for one in given:
        lines = Path(one).read_text().splitlines() if Path(one).is_file() else [one]
        for line in filter(None, lines):
            pair = _PAIR.fullmatch(line)
            if pair is None:
                raise SystemExit(f"--renamed: {line!r} is no OLD=NEW, and no file")
            found[pair[1]] = pair[2]
    return found


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """The lines of a unified diff of the models that both sides have."""
    for name in sorted(old.keys() & new.keys()):
        sides = (text.splitlines(keepends=True) for text in (old[name], new[name]))
        yield from difflib.unified_diff(*sides, f"old/{name}", f"new/{name}")


def refusals(old: Path, new: Path) -> list[str]:
    """The models that a side refuses, with the first line of each complaint."""
    return [
        f"{side} refuses {path.stem}: {path.read_text().partition(chr(10))[0]}"
        for side, folder in (("old", old), ("new", new))
        for path in sorted(folder.glob("*.refused"))
    ]


def texts(folder: Path) -> dict[str, str]:
    """Model -> its rendered text."""
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.txt"))}


def main(words: list[str] | None = None) -> int:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", nargs="?", default="HEAD")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--ignore-names", action="store_true")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--jobs", type=int, default=1, help="processes that render a side")
    options = parser.parse_args(words)
    renamed = pairs(options.renamed)
    with (
        corpus_of(options.old, options.jobs) as old_folder,
        corpus_of(options.new, options.jobs) as new_folder,
    ):
        old, new = texts(old_folder), texts(new_folder)
        refused = refusals(old_folder, new_folder)
    if not refused and not old.keys() & new.keys():
        raise SystemExit("the sides have no model in common")
    for name in sorted(old.keys() ^ new.keys()):
        print(f"only one side has {name}", file=sys.stderr)
    if options.ignore_names or renamed:
        old = {name: normal(text, renamed) for name, text in old.items()}
        new = {name: normal(text) for name, text in new.items()}
    found = list(differences(old, new))
    sys.stdout.writelines(found)
    for line in refused:
        print(line, file=sys.stderr)
    compared = len(old.keys() & new.keys())
    print(f"{compared} models compared, {len(refused)} refusals", file=sys.stderr)
    return 1 if found or refused else 0


if __name__ == "__main__":
    raise SystemExit(main())
