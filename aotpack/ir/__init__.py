"""The loop IR: a program is a list of loop nests over buffers. Modules in reading order:

``dtypes``, ``symbolic`` (sizes and indices), ``values`` (expressions), ``operations`` (loop nests),
``foreign`` (calls of other kernels), ``buffers``, ``program`` (the grammar, with branches and
loops), ``uses`` (producers and readers of buffers), ``ops`` (operators and reductions),
``rewrite``, ``verify``, ``interpret``, ``kernels`` (what scheduling adds: kernels, tiles,
accesses). ``graph`` is the input of lowering, ``assertions`` and ``golden`` beside it, ``rounding``
says where it rounds. ``interning``, ``names``, ``origin``, ``ordering``, ``packs`` (of weights),
``passes`` (the runner) and ``user_passes`` serve the others.
"""
