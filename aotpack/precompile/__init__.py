"""Kernel texts and targets -> binaries with launch metadata. Nothing else imports triton."""

from aotpack.precompile.precompile import precompile

__all__ = ["precompile"]
