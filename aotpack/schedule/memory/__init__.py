"""Memory: updates in place, exchange buffers, and lifetimes of intermediates.

In reading order: ``in_place_updates``, ``scan_exchange``, ``partial_sums``, ``lifetimes``.
"""
