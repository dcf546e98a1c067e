"""A device that computes on host memory through Triton's interpreter. For tests."""
