"""IR values -> lines of text, in any kernel language.

In reading order: ``language`` and ``dialect`` (the ports to a language), ``texts`` (tables of
operator texts), ``frame`` (axes in a tile), ``regions`` and ``scope`` (where lines go), ``nesting``
(depth and dependences of values), ``arguments`` (parameters), ``integers``, ``emitter``,
``kernel_builder`` (the state of a kernel), ``epilogue``, ``loop_fission``, ``reserved`` (names),
``source_text``.
"""
