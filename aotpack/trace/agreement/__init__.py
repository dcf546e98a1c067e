"""What stands for another program must compute the same: checked before it is used.

Modules: ``exported`` (torch.export against the model) with ``departure`` (the operator to blame),
``lowerings`` (registered lowerings against their operators), ``values`` (when two results agree).
"""
