"""The ports to processors and NVIDIA GPUs: memory, copies, launches, CUDA graphs, timing."""
