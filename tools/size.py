"""Lines of every module, largest first, with the sums by folder.

python tools/size.py [FOLDER ...]
"""

import sys
from collections import Counter
from pathlib import Path

LIMIT = 400


def lines_of(folders: list[Path]) -> dict[Path, int]:
    """Lines of each Python file and template below the folders."""
    files = [file for folder in folders for file in folder.rglob("*") if is_counted(file)]
    return {file: file.read_text().count("\n") for file in files}


def is_counted(file: Path) -> bool:
    """True for modules and templates, each counted once."""
    return file.suffix in (".py", ".jinja") and not any(part.is_symlink() for part in file.parents)


def main() -> int:
    """Print both tables; 1 when a file is over the limit."""
    root = Path(__file__).parents[1]
    names = sys.argv[1:] or ["aotpack", "templates", "tests", "tools", "examples"]
    counts = lines_of([root / name for name in names])
    for file, lines in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        mark = "  over the limit" if lines > LIMIT else ""
        print(f"{lines:6}  {file.relative_to(root)}{mark}")
    folders: Counter[str] = Counter()
    for file, lines in counts.items():
        folders[
            "/".join(file.relative_to(root).parts[:2][: len(file.relative_to(root).parts) - 1])
        ] += lines
    print()
    for folder, lines in sorted(folders.items()):
        print(f"{lines:6}  {folder}/")
    print(f"{sum(folders.values()):6}  all")
    return 1 if max(counts.values()) > LIMIT else 0


if __name__ == "__main__":
    raise SystemExit(main())
