"""Matrix products and attention in C.

In reading order: ``operand_roles`` (which operand is packed in panels), ``split`` (an axis as two),
``levels`` (lines by depth in a template's loop nest), ``windows`` (of convolutions, read in place),
``slots`` (lines for a template's loads and epilogue), ``matmul``, ``gemv`` (few rows),
``depthwise`` (convolutions channel by channel), ``attention``. A factor is an operand of a product.
"""
