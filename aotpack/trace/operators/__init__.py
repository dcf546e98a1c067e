"""Calls of torch's operators: how they are read, decomposed and replaced."""
