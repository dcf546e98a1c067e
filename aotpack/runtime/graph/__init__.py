"""The order in which the steps of a plan are issued. In reading order:

``dependence`` (edges between steps), ``runs`` (partitions for CUDA graphs), ``control`` (branches
and loops), ``size_read`` (sizes that data decide), ``executor`` (steps -> one function of the
stream), ``derivations`` (weight programs of several methods as one), ``unrolled`` (calls of
bodies).
"""
