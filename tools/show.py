"""All stages and passes of a model as text files: 01_traced.txt, 03_06_realize.txt ...

python tools/show.py MODEL FOLDER [--target LIST]
"""

import argparse
import tempfile
from pathlib import Path

from aotpack.instrumentation import Instrumentation
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import parse_targets
from aotpack.trace import load_model


def main() -> None:
    """Build into a temporary folder and keep the texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="sm_90")
    options = parser.parse_args()
    loaded = load_model(options.model)
    source = Source(
        loaded.module,
        loaded.args,
        loaded.kwargs,
        loaded.dynamic_shapes,
        loaded.name,
        loaded.version,
    )
    hook = Instrumentation(dump=options.folder)
    with tempfile.TemporaryDirectory() as out:
        how = BuildOptions(targets=parse_targets(options.target), out=Path(out))
        _ = Build(source, how, hook).emitted
    for file in sorted(options.folder.glob("0*.txt")):
        print(f"{file}  {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
