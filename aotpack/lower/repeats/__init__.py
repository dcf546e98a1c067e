"""Repeated layers of a graph as calls of one body.

In reading order: ``periods`` (repeated stretches of a list), ``wiring`` (what flows between the
calls of a stretch), ``nodes`` (compared, and with other operands), ``repeats`` (graph to graph),
``differences`` (why layers are not one body), ``body_calls`` (lowers a call).
"""
