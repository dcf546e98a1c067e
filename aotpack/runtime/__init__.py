"""The run-time half of aotpack, copied verbatim into every wheel; needs numpy and a driver.

``EXPORTED`` names all that a package's wrapper may import from here.
"""

from .errors import (
    AotpackError,
    ArgumentError,
    DeviceError,
    PackageError,
    VerifyError,
    WeightError,
)
from .loading import load
from .model import Model
from .plan import Buffer, Call, Launch, Plan, first
from .selftest import verify

EXPORTED = ("Buffer", "Call", "Launch", "Plan", "first")

__all__ = [
    "EXPORTED",
    "AotpackError",
    "ArgumentError",
    "Buffer",
    "Call",
    "DeviceError",
    "Launch",
    "Model",
    "PackageError",
    "Plan",
    "VerifyError",
    "WeightError",
    "first",
    "load",
    "verify",
]
