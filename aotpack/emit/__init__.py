"""Emit: Precompiled -> Emitted, one wheel. ``write_package`` writes the importable folder alone."""

from .emit import emit
from .package import write_package

__all__ = ["emit", "write_package"]
