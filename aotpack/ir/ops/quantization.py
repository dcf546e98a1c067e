"""How weights are quantised before a build: ``int8``, ``int4`` or ``fp8``, with groups."""

from dataclasses import dataclass

from aotpack.errors import UsageError

KINDS = ("int8", "int4", "fp8")
SMALLEST_GROUP = 16
GROUP_OF_INT4 = 128
ACCEPTED = (
    f"accepted: {', '.join(KINDS)}, and behind them the neighbours in a row that share a scale, "
    f"{SMALLEST_GROUP} or more, a power of 2: int4:group=128"
)


@dataclass(frozen=True, slots=True)
class Quantization:
    """The type of codes, and how many neighbours in a row share a scale (None: the row)."""

    kind: str
    group: int | None

    def __str__(self) -> str:
        return self.kind if self.group is None else f"{self.kind}:group={self.group}"


def read_quantization(text: object) -> Quantization | None:
    """The meaning of ``--quantize``; UsageError for what has none."""
    if text is None:
        return None
    kind, colon, rest = str(text).partition(":")
    name, _, number = rest.partition("=")
    if kind not in KINDS or (colon and (name != "group" or not number.isdecimal())):
        raise UsageError(f"quantize={text!r}; {ACCEPTED}")
    group = int(number) if rest else (GROUP_OF_INT4 if kind == "int4" else None)
    if group is not None and (group < SMALLEST_GROUP or group & (group - 1)):
        raise UsageError(f"quantize={text!r}; {ACCEPTED}")
    return Quantization(kind, group)
