"""Write docs/operators.md: the module that lowers each operator of torch.

python tools/operators.py          # write the document
python tools/operators.py --check  # check whether it is stale
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from aotpack.lower import LOWERINGS

ROOT = Path(__file__).resolve().parents[1]
HEAD = """\
# Operators

Written by `tools/operators.py` from the registered lowerings; a test fails when it is stale.

An operator without a row is refused, with all others of the model and the lines that call them,
unless you [register a lowering](guide/custom_operators.md) or build with
[`--fallback torch`](guide/fallback.md). Composite operators of torch are decomposed before.

| operator | lowered in `aotpack/` |
| --- | --- |
"""


def text(lowerings: Mapping[str, Callable[..., None]]) -> str:
    """The document: a row for each operator, all its overloads together."""
    found: dict[str, set[str]] = {}
    for name, function in lowerings.items():
        operator = ".".join(name.split(".")[:2])
        path = function.__module__.removeprefix("aotpack.").replace(".", "/") + ".py"
        found.setdefault(operator, set()).add(path)
    rows = (
        f"| `{operator}` | {', '.join(f'`{path}`' for path in sorted(paths))} |\n"
        for operator, paths in sorted(found.items())
    )
    return HEAD + "".join(rows)


def main() -> int:
    """0 when the document is written, or not stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    path, wanted = ROOT / "docs" / "operators.md", text(LOWERINGS)
    if not parser.parse_args().check:
        path.write_text(wanted)
    elif not path.exists() or path.read_text() != wanted:
        print("docs/operators.md is stale: run tools/operators.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
