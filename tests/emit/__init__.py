"""Tests of the wheel writer."""
