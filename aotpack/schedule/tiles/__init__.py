"""Which block sizes a kernel is compiled with: a closed list of variants for each kernel."""
