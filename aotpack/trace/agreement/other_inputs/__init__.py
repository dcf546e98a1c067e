"""The model and its program on other inputs than the example.

``trials`` (one comparison), ``resized`` (inputs of other sizes), ``smallest`` (which sizes, above
all 1) with ``behind`` (what a model asks only there) and ``turned`` (sizes that give a condition
another answer), ``memory_orders`` (row-major inputs), ``representations`` (the same elements in
views and as negatives), ``keys`` (dicts in another order).
"""
