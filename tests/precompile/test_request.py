from dataclasses import replace

from aotpack.precompile.request import Request
from aotpack.target import Target
from tests.precompile.kernels import kernel

REQUEST = Request.of(kernel("add"), Target("cuda", 90))
VERSIONS = {"triton": "3.9.0"}


def test_types_and_alignment_come_from_the_arguments() -> None:
    assert REQUEST.types == (("x", "*fp32"), ("y", "*fp32"), ("n", "i32"))
    assert REQUEST.multiples == ((0, 16), (1, 16))


def test_print_and_parse_are_a_pair() -> None:
    assert Request.parse(REQUEST.as_text()) == REQUEST


def test_everything_the_binary_depends_on_is_in_the_key() -> None:
    others = [
        replace(REQUEST, text=REQUEST.text + "\n"),
        replace(REQUEST, arch=80),
        replace(REQUEST, multiples=((0, 16),)),
        replace(REQUEST, num_warps=8),
        replace(REQUEST, num_stages=3),
        replace(REQUEST, types=(("x", "*fp16"), *REQUEST.types[1:])),
    ]
    keys = {request.key(VERSIONS) for request in (REQUEST, *others)}
    keys.add(REQUEST.key({"triton": "3.6.0"}))
    assert len(keys) == len(others) + 2


def test_the_key_is_the_same_for_equal_requests() -> None:
    assert REQUEST.key(VERSIONS) == Request.of(kernel("add"), Target("cuda", 90)).key(VERSIONS)
