"""Operators that combine elements along dimensions. In reading order:

``reduction``, ``variance_norms``, ``norm`` (normalisations), ``softmax``, ``scan``, ``sort``.
"""
