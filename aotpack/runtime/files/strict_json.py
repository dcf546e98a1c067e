"""JSON without what readers disagree about: no repeated keys, no NaN, plain UTF-8 alone."""

import codecs
import json
from typing import Any


class _Refused(ValueError):
    """What this module refuses beyond the standard."""


def parse_json(content: bytes) -> Any:
    """The value that the text describes; ValueError with a reason if it is refused."""
    if content.startswith(codecs.BOM_UTF8):
        raise ValueError("it begins with a byte order mark")
    try:
        return json.loads(
            content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("its lists and objects are nested too deeply") from None
    except (json.JSONDecodeError, _Refused):
        raise
    except ValueError:  # Python's own limit
        raise ValueError("an integer has too many digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"the key {twice!a} is there twice")
    return found


def _no_number(text: str) -> Any:
    raise _Refused(f"{text} is no number in JSON")
