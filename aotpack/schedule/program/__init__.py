"""Passes from program to program, before anything is fused."""
