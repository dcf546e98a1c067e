"""The user's Triton kernels: ``triton_kernels`` (their launches), ``configurations`` (of autotuned
ones), ``triton_source`` (text).
"""
