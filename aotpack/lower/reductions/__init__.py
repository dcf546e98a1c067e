"""Operators that combine elements along dimensions: sums, norms, softmax, scans, sorts."""
