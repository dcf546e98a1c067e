"""Tests of choosing between forms of a launch."""
