"""Modules that are prepared before they are exported.

``adapters`` (the factors of PEFT), ``state_arguments`` (caches in arguments and results as state)
with ``state_results`` (what a call gives back of them), ``properties`` (parts that are computed),
``named_arguments`` (what ``*args`` and ``**kwargs`` take).
"""
