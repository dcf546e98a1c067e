"""Random numbers from a seed: ``seeds`` (which models take one), ``functions`` (what is drawn)."""
