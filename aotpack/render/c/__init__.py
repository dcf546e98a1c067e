"""Everything about C text for processors."""
