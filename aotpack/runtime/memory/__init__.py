"""Device memory that outlives a call: arenas, packed intermediates, weights."""
