"""Export errors of torch, condensed to the user's lines. In reading order:

``conditions`` (logged while exporting), ``complaint`` (the message), ``guards`` (checked later),
``lines`` (that assign), ``collectives`` (refused).
"""
