"""What stands for another program must compute the same: checked before it is used.

Modules: ``exported`` (torch.export against the model) with ``departure`` (the operator to blame)
and ``other_inputs`` (other sizes and memory orders), ``dependence`` (what depends on a node),
``lowerings`` (registered lowerings against their operators), ``values`` (when two results agree),
``second_call`` (what a model keeps from call to call) and ``other_methods`` (from one method to
another) with ``attributes`` (what a model holds), ``surroundings`` (what stands outside of it),
``reads`` and ``writes`` (the tensors that a call reads, and those it writes to), ``steps`` (the
operators that a call calls) and ``words`` (what to write instead), ``draws`` (numbers of Python's
generators), ``own_seeds`` (a seed in forward) and ``clocks``.
"""
