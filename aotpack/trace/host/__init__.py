"""Models from any device become models on the host.

Modules: ``copies`` (of tensors), ``devices`` (that forward names), ``functions`` (which hold
parts), ``inputs`` (no tensors), ``layers`` (that raise), ``program_inputs`` (of saved programs),
``turns`` (of builds), ``values`` (unreadable).
"""
