"""The model and its program on other inputs than the example.

``runs`` (one comparison), ``resized`` (inputs of other sizes), ``smallest`` (which sizes, above all
1) with ``behind`` (what a model asks only there) and ``turned`` (sizes that give a condition
another answer), ``orders`` (inputs in row-major memory), ``keys`` (dicts in another order).
"""
