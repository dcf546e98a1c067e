"""Jinja templates of kernels and wrapper; data only, loaded by ``aotpack.render.environment``."""
