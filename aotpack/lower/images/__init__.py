"""Pooling, resizing and sampling of images."""
