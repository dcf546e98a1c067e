"""Everything about Triton text."""
