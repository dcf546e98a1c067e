"""Random numbers from a seed.

``seeds`` (which models take one), ``streams`` (bits, uniform and normal numbers), ``functions``
(torch's, drawn from these).
"""
