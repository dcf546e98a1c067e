"""C: kernels for processors, in one file that a compiler makes a shared object of.

The IR as text: ``types``, ``operators``, ``monoids``; ``reserved``, names. The functions that texts
call are in the templates ``math.h`` and ``circular.h``.
Kernels, in reading order: ``dialect`` (expressions), ``regions`` and ``parameters`` (loops with
braces, arguments of a call), ``kernels`` (the template of a kernel, the file of all), ``window``
(guards as loop bounds), ``loops``, ``products``, ``contexts`` (for templates).
"""
