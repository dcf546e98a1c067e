"""The user's own Triton kernels: their text and their launches."""
