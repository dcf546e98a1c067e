"""Losses of torch that are operators of their own: ``linear_cross_entropy`` (in chunks)."""
