"""Detection models: torchvision's operators, by name, and its Python that branches on counts.

``calls`` (operators -> functions), ``suppression`` (boxes that overlap a better one), ``regions``
(parts of images behind boxes); replaced while exporting: ``branches``.
"""
