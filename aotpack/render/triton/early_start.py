"""The lines by which a Triton kernel starts while the launch before it drains.

gdc_wait(): the launches before this one are done, and what they wrote is seen
gdc_launch_dependents(): the next launch may start once all programs of this one have come here
"""

import re

_LINES = re.compile(r"^ +gdc_(?:launch_dependents|wait)\(\)\n", re.MULTILINE)
_ADMISSION = re.compile(r"^ +gdc_launch_dependents\(\)\n", re.MULTILINE)
_WAIT = re.compile(r"^( +)gdc_wait\(\)\n", re.MULTILINE)
_IMPORT = re.compile(r"^from triton\.language\.extra\.cuda import gdc_.*\n", re.MULTILINE)


def without_early_start(text: str) -> str:
    """The text of a kernel that starts when the launch before it has ended."""
    return _LINES.sub("", _IMPORT.sub("", text))


def admitting_first(text: str) -> str:
    """The text of a kernel that admits the next launch before it waits for the one before."""
    return _WAIT.sub(r"\1gdc_launch_dependents()\n\g<0>", _ADMISSION.sub("", text), count=1)


def admitting_at_end(text: str) -> str:
    """The text of a kernel that admits the next launch at its end, and not earlier."""
    *early, last = _ADMISSION.split(text)
    return "".join(early) + "    gdc_launch_dependents()\n" * bool(early) + last
