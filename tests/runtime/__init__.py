"""Tests of the runtime through load and call, on a machine made of numpy."""
