"""Expressions to lines of text, for any language: the emitter, regions, kernel parameters."""
