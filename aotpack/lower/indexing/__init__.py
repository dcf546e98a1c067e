"""Reads and writes at indices that are data. In reading order:

``gather``, ``scatter``, ``index_put``, ``search`` (sorted rows), ``nonzero``, ``counted`` (results
whose size is data), ``repeats`` (distinct and repeated elements), ``histogram``, ``segments``,
``embedding_bag``.
"""
