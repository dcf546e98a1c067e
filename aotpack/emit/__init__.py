"""Emit: Precompiled -> Emitted, one wheel; ``write_package`` writes the importable folder alone.

In reading order: ``names`` (of a package), ``content`` (a file), ``modules`` (Python text),
``manifest``, ``sbom``, ``package`` (the folder), ``tags`` and ``platforms`` (where it runs),
``description`` (its README), ``wheel``, ``provenance``, ``emit``; ``statement`` (reads
signed provenance) and ``signature`` (of what was emitted), which needs cryptography.
"""

from .emit import check_folder, emit
from .package import write_package
from .provenance import Inputs

__all__ = ["Inputs", "check_folder", "emit", "write_package"]
