"""The expressions of the fuzzer's rules: ``{x}`` and ``{y}`` are values, ``{d}`` a dimension."""

SMOOTH = (
    "{x}.tanh()", "{x}.sigmoid()", "F.gelu({x})", "F.silu({x})", "({x} / 4).exp()", "{x}.sin()",
    "({x} * {x} + 1).sqrt()", "({x}.abs() + 1).log()", "1 / ({x} * {x} + 1)", "{x} * 0.5 - 1",
    "F.softplus({x})", "({x}.abs() + 0.5).rsqrt()", "{x}.clamp(-1, 1.5)", "{x}.erf()",
)  # fmt: skip
RARE = (
    "{x}.cos()", "{x}.atan()", "F.mish({x})", "F.elu({x})", "F.leaky_relu({x}, 0.1)",
    "{x}.expm1() / 8", "F.gelu({x}, approximate='tanh')", "({x}.abs() + 0.1).pow(0.7)",
    "{x}.square() / 4", "{x}.sinh() / 8", "F.hardswish({x})", "torch.nan_to_num({x})",
    "({x} / 9).asin().nan_to_num(0.0)", "F.logsigmoid({x})", "{x}.diff(dim=0)",
    "{x}.log1p().nan_to_num(0.0, 1.0, -1.0)", "F.normalize({x}, dim=0, eps=0.1)",
)  # fmt: skip
EXACT = ("{x}.relu()", "-{x}", "{x}.abs()", "{x} + 1", "{x} * 2", "{x}.clamp(max=1)")
DECISIONS = (
    "{x} > 0", "{x}.floor()", "{x}.round()", "{x}.sign()", "{x} == 1", "{x}.long()", "{x}.bool()",
)  # fmt: skip
VIEWS = (
    "{x}.transpose({d}, {e})", "{x}.unsqueeze({d})", "{x}.flip({d})", "{x}.roll({n}, {d})",
    "{x}.select({d}, {n})", "{x}.narrow({d}, {n}, 1)", "{x}.movedim({d}, {e})",
    "{x}[{n}:]", "{x}.repeat_interleave(2, {d})", "{x}.contiguous()",
    "F.pad({x}, (1, 2), value=0.5)", "F.pad({x}, (0, 0, 2, 1))",
    "{x}.unsqueeze({d}).expand(*{x}.shape[:{d}], 3, *{x}.shape[{d}:])",
)  # fmt: skip
SUMS = (
    "{x}.sum({d}, keepdim={keep}) / 4", "{x}.mean({d}, keepdim={keep})", "{x}.softmax({d})",
    "{x}.log_softmax({d})", "{x}.logsumexp({d}, keepdim={keep})", "({x} / 4).cumsum({d})",
    "{x}.var({d}, correction=0, keepdim={keep})", "{x}.mean()", "{x}.sum(({d},)) / 8",
    "{x}.norm(dim={d}, keepdim={keep}) / 4", "({x} / 2).prod({d})",
)  # fmt: skip
SELECTIONS = (
    "{x}.amax({d}, keepdim={keep})", "{x}.amin({d}, keepdim={keep})", "{x}.max({d})[0]",
    "{x}.amax()",
)  # fmt: skip
ORDERED = (
    "{x}.sort({d})[0]", "{x}.sort({d}, True)[0]", "{x}.topk(1 + {n}, {d})[0]",
    "{x}.topk(1 + {n}, {d}, False)[0]", "{x}.kthvalue(1 + {n}, {d}, keepdim={keep})[0]",
    "{x}.contiguous().median({d})[0]",  # eager takes another element of an expanded tensor
)  # fmt: skip
PLACES_IN_ORDER = (
    "{x}.argsort({d}, stable=True)", "{x}.sort(dim={d}, descending=True, stable=True)[1]",
)  # fmt: skip
INDICES = (
    "{x}.argmax({d}, keepdim={keep})", "{x}.argmin({d})", "{x}.cummax({d})[1]",
    "({x} > 0).sum({d})",
)  # fmt: skip
TRUTHS = ("{x}.any({d})", "{x}.all({d}, keepdim={keep})", "{x}.sum({d})", "{x}.any()")
COUNTS = ("{x}.sum({d})", "{x}.cumsum({d})", "{x}.sum()")
WHOLE = ("{x} // 3", "{x} % 5", "{x} * 3 - 1", "{x}.float()", "{x}.int()")
CASTS = ("{x}.float()", "{x}.double()", "{x}.to(torch.float32) * 0.7")
PAIRS = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.maximum({x}, {y})")
SMOOTH_PAIRS = ("{x} / ({y}.abs() + 1)", "torch.minimum({x}, {y}) * 0.3")
EXACT_PAIRS = ("torch.lerp({x}, {y}, 0.3)", "torch.fmod({x}, {y}.abs() + 1)")
COMPARISONS = ("{x} < {y}", "{x} >= {y}", "{x} != {y}")
DIVISIONS = ("torch.div({x}, {y}.abs() + 1, rounding_mode='floor')", "{x} % ({y}.abs() + 1)")
ADDED = ("{x}.index_add({d}, {i}, {rows})", "({x} * 2).index_add({d}, {i}, {rows}, alpha=3)")
PLACED = (
    "torch.ones_like({x}).index_copy({d}, {i}, {rows} + 1)",
    "({x} + 1).index_fill({d}, {i}, 3)",
    "({x} - 1).index_reduce({d}, {i}, {rows}, 'amax')",
)
LOGIC = ("torch.logical_and({x}, {y})", "torch.logical_xor({x}, {y})")
BITS = ("{x} & {y}", "{x} | {y}", "{x} ^ {y}")
