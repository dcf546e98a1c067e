"""Pooling, resizing and sampling of images. In reading order:

``pooling`` (and nearest neighbours), ``resample`` (interpolation, grids), ``antialias``.
"""
