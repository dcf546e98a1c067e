"""Whole models through all stages, against eager."""
