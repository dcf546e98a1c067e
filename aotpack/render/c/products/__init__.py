"""Matrix products and attention in C."""
