"""Tests of the loop IR."""
