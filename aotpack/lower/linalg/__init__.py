"""Matrix products, convolutions and attention, and the windows they read through."""
