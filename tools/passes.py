"""Write docs/passes.md: the passes of a schedule in their order, from their docstrings.

python tools/passes.py          # write the document
python tools/passes.py --check  # check whether it is stale
"""

import argparse
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from textwrap import dedent, wrap

from aotpack.schedule.draft import DraftPass
from aotpack.schedule.passes import PASSES

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
HEAD = """\
# Passes

Written by `tools/passes.py` from `aotpack/schedule/passes.py` and the docstrings of the passes;
a test fails when it is stale.

A pass is a function of the fields of a draft that it reads; its result replaces the fields that it
changes (`aotpack/schedule/draft.py`). Passes of the user (`passes=[...]`) run before these, on the
lowered program.

- `aotpack show MODEL --after realize` prints the draft after a pass.
- `AOTPACK_DUMP=folder` writes one file for each pass (`03_10_realize.txt`), and `03_passes.txt`
  with their times.
- `AOTPACK_VERIFY=1` verifies what each pass hands on; a dump and `--after` do so too.
- `python tools/bisect_pass.py MODEL` names the first pass after which an answer is wrong.
"""
PREPARE = """\
## Prepare

The program is rewritten, alike for all architectures. Parts of branches and loops are scheduled
first, by all passes. The weight program goes through those that run with `given` strides.
"""
PLAN = """\
## Plan

The program becomes kernels. For architectures on which long rows stay whole that are split on
others, these passes run once more.
"""


def text() -> str:
    """The document."""
    files = Counter(inspect.getsourcefile(one.function) for one in PASSES)
    alone = {file for file, count in files.items() if count == 1}
    parts = [HEAD, PREPARE]
    for number, one in enumerate(PASSES, 1):
        if number == len(PASSES.prepare) + 1:
            parts.append(PLAN)
        parts.append("\n".join(_entry(number, one, alone)) + "\n")
    return "\n".join(parts)


def _entry(number: int, one: DraftPass, alone: set[str | None]) -> Iterator[str]:
    """A pass; with the example of its file, unless the file has other passes."""
    file = inspect.getsourcefile(one.function)
    assert file is not None and one.function.__doc__
    what = " ".join(inspect.cleandoc(one.function.__doc__).partition("\n\n")[0].split())
    what = what.partition("; the same object")[0].rstrip(".") + "."
    facts = f"`{Path(file).relative_to(ROOT)}`; changes {' and '.join(one.changes)}"
    facts += f"; with `{one.only_with}` alone" if one.only_with else ""
    facts += f"; not with `{one.only_without}`" if one.only_without else ""
    yield f"### {number}. {one.name}"
    yield ""
    yield from wrap(what, WIDTH)
    yield ""
    yield f"({facts})"
    example = _example(sys.modules[one.function.__module__].__doc__ or "") if file in alone else ""
    if example:
        yield f"\n```text\n{example}\n```"


def _example(doc: str) -> str:
    """The first indented paragraphs of a docstring."""
    shown = dropwhile(lambda one: not _is_code(one), inspect.cleandoc(doc).split("\n\n"))
    return dedent("\n\n".join(takewhile(_is_code, shown)))


def _is_code(paragraph: str) -> bool:
    return paragraph.startswith("    ")


def main() -> int:
    """0 when all is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    path = ROOT / "docs/passes.md"
    if not parser.parse_args().check:
        path.write_text(text())
    elif not path.exists() or path.read_text() != text():
        print("docs/passes.md is stale: run tools/passes.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
