"""Each pass of the scheduler on small programs."""
