"""Golden data as a package reads it: ``law`` says when a result is right; ``data`` reads the file,
``drawn`` makes inputs from the bits of ``philox``, ``samples`` are parts of large results.
"""
