"""The version of aotpack."""

__version__ = "0.1.0"
