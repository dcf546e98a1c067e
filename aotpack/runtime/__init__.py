"""The runtime, copied verbatim into every wheel; needs numpy and a driver. In reading order:

``manifest`` with ``tensors``, and ``plan`` (the inputs), ``files`` (reads them), ``loading``
(folder -> ``model``), ``binding``, ``checks`` (guards, assertions, debugging), ``arrays`` (the
caller's), ``prepare`` (plan -> steps) with ``bound``, ``derive`` (the weight program), ``memory``,
``graph`` (order of steps), ``devices``, ``staging`` (copies), ``torch_calls``; ``interface`` (what
callers see of it); ``selftest``, ``tuning`` and ``command`` run packages. ``dtypes``, ``errors``,
``sizes``, ``strides``, ``structures``, ``safetensors`` and ``tuning_file`` serve the others.
``EXPORTED`` lists the names that a package's wrapper may import.
"""

from .devices.device import Device
from .errors import (
    AotpackError,
    ArgumentError,
    AssertionFailed,
    ClosedError,
    DeviceError,
    PackageError,
    VerifyError,
    WeightError,
)
from .graph.unrolled import unrolled
from .interface.keywords import naming_keywords
from .loading import load
from .model import Model
from .plan import Body, Branch, Buffer, Call, Counters, Launch, Loop, Part, Plan, Repeat, SizeRead
from .plan import first as first
from .selftest import verify

EXPORTED = (
    *("Body", "Branch", "Buffer", "Call", "Counters", "Launch", "Loop", "Part", "Plan", "Repeat"),
    *("SizeRead", "first", "unrolled"),
)

__all__ = [
    "EXPORTED",
    "AotpackError",
    "ArgumentError",
    "AssertionFailed",
    "Body",
    "Branch",
    "Buffer",
    "Call",
    "ClosedError",
    "Counters",
    "Device",
    "DeviceError",
    "Launch",
    "Loop",
    "Model",
    "PackageError",
    "Part",
    "Plan",
    "Repeat",
    "SizeRead",
    "VerifyError",
    "WeightError",
    "first",
    "load",
    "naming_keywords",
    "unrolled",
    "verify",
]
