"""Reads and writes at indices that are data. In reading order:

``gather``, ``scatter``, ``index_put``, ``search`` (sorted rows), ``nonzero``, ``histogram``,
``segments``, ``embedding_bag``.
"""
