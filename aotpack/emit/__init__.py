"""Emit: Precompiled -> Emitted, one wheel; ``write_package`` writes the importable folder alone.

In reading order: ``names`` (of a package), ``content`` (a file), ``manifest``, ``sbom``,
``package`` (the folder), ``tags`` (the platform), ``wheel``, ``emit``.
"""

from .emit import emit
from .package import write_package

__all__ = ["emit", "write_package"]
