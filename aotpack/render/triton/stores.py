"""What the text of a Triton kernel stores through."""

import re

from aotpack.ir.ops.monoids import MONOIDS

STORES = re.compile(rf"\b(?:tl\.store|tl\.atomic_\w+|scatter_(?:{'|'.join(MONOIDS)}))\(\s*(\w+)")
