"""The user's Triton kernels: ``triton_kernels`` (their launches), ``triton_source`` (text)."""
