"""The caller's arrays: torch, CuPy, numpy and DLPack in, the same kind out."""
