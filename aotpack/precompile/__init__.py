"""Kernel texts and targets -> binaries with launch metadata. Nothing else imports triton."""

from aotpack.precompile.host import check_host
from aotpack.precompile.precompile import precompile

__all__ = ["check_host", "precompile"]
