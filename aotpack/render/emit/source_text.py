"""What of a kernel's text counts: equal text, comments aside, has equal digests."""

import re
from hashlib import sha256


def digest(text: str) -> str:
    """A short name for a text."""
    return sha256(text.encode()).hexdigest()[:8]


def without_comments(text: str, mark: str) -> str:
    """The text without lines that are comments, which begin with ``mark``."""
    return re.sub(rf"^\s*{re.escape(mark)}.*\n", "", text, flags=re.MULTILINE)
