"""The run-time half of aotpack, copied verbatim into every wheel; needs numpy and a driver.

``EXPORTED`` names all that a package's wrapper may import from here.
"""

from .errors import (
    AotpackError,
    ArgumentError,
    AssertionFailed,
    DeviceError,
    PackageError,
    VerifyError,
    WeightError,
)
from .loading import load
from .model import Model
from .plan import Branch, Buffer, Call, Counters, Launch, Loop, Part, Plan, first
from .selftest import verify

EXPORTED = ("Branch", "Buffer", "Call", "Counters", "Launch", "Loop", "Part", "Plan", "first")

__all__ = [
    "EXPORTED",
    "AotpackError",
    "ArgumentError",
    "AssertionFailed",
    "Branch",
    "Buffer",
    "Call",
    "Counters",
    "DeviceError",
    "Launch",
    "Loop",
    "Model",
    "PackageError",
    "Part",
    "Plan",
    "VerifyError",
    "WeightError",
    "first",
    "load",
    "verify",
]
