"""What callers see of a package: ``keywords``."""
