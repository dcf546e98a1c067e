"""The documents: their examples run, and what they list is what there is."""
