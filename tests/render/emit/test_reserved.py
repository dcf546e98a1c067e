"""Names that texts give: words, patterns, and what is read off templates."""

from aotpack.render.emit.reserved import PYTHON_NAMES, Reserved, defined_names, given_names


def test_words_and_patterns() -> None:
    names = Reserved(frozenset({"acc"})) | Reserved(patterns=(r"t\d+",))
    assert "acc" in names and "t12" in names
    assert "accent" not in names and "t" not in names


def test_python_has_its_keywords_and_builtins() -> None:
    assert "lambda" in PYTHON_NAMES and "min" in PYTHON_NAMES
    assert "batch" not in PYTHON_NAMES


def test_names_that_a_kernel_gives() -> None:
    text = "  acc = tl.zeros()\n  for start in range(n):\n{% for line in c.lines %}\n  fence()\n"
    assert given_names([text]).words == {"acc", "start", "fence"}


def test_names_that_stand_in_one_assignment() -> None:
    assert given_names(["  share, rest = a // b, a % b\n"]).words == {"share", "rest"}


def test_names_with_a_type() -> None:
    assert given_names(["  lanes: gl.constexpr = gl.BlockedLayout()\n"]).words == {"lanes"}


def test_names_that_a_template_numbers() -> None:
    found = given_names(["  layout_{{ part.suffix }}: gl.constexpr = f()\n  n{{ i }} += 1\n"])
    assert "layout_0" in found and "n" in found and "n3" in found
    assert "n_tokens" not in found and "layout" not in found


def test_functions_alone_of_what_knows_no_sizes() -> None:
    text = "{% macro wait() %}\n@triton.jit\ndef wait(x):\n    found = tl.load(x)\n"
    assert defined_names([text]).words == {"wait"}
