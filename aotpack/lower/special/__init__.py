"""Special functions: formulas over elementwise operators, with fitted series."""
