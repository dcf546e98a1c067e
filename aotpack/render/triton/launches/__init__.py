"""Several Triton kernels in one launch: ``horizontal`` side by side, ``last_block`` in turn."""
