"""Lifetimes of intermediates, exchange buffers and updates in place."""
