"""What scheduling decides: kernels, tiles, schedules, and where kernels touch memory."""
