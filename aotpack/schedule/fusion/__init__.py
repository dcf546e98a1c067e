"""Which operations share a kernel, and why others do not."""
