"""Detection models: torchvision's operators, by name, and its Python that branches on counts.

``suppression`` (boxes that overlap a better one), ``regions`` (parts of images behind boxes),
``calls`` (operators -> functions); replaced while exporting: ``branches``.
"""
