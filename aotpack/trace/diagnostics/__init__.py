"""Export errors of torch, condensed to the user's lines. In reading order:

``attempts`` (torch.export, and again) with ``solver`` (what torch's fails at), ``conditions`` and
``asked`` (logged while exporting), ``derived`` (asserted by the export),
``evaluated`` (for many sizes at once),
``assumed`` (sizes that torch takes for 2 or more), ``kept_sizes`` (fixed with mutation),
``conditional_copies`` (that are changed) with ``reshaped`` (for some sizes), ``lines`` (the
user's), ``multiples`` (which sizes are right), ``complaint`` (the message),
``intervals`` (proofs), ``roundings`` (of floats to sizes),
``guards`` and ``declared`` (checked later), ``collectives`` (refused).
"""
