"""C: kernels for processors, in one file that a compiler makes a shared object of.

What the IR means, as text: ``types``, ``operators``, ``monoids``; ``reserved``, names. The
functions that texts call are in the templates ``math.h`` and ``circular.h``.
Kernels, in reading order: ``dialect`` (how expressions are written), ``regions`` and ``parameters``
(loops with braces, what a call passes), ``kernels`` (the template of a kernel, the file of all),
``window`` (guards as bounds of loops), ``loops``, ``products``, ``contexts`` (for templates).
"""
