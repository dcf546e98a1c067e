import io

from rich.console import Console

from aotpack.progress import Bar, PlainLines


def test_plain_lines_speak_once_per_tenth() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream)
    lines.begin("compile kernels", 30)
    for number in range(30):
        lines.step(f"k{number}")
    printed = stream.getvalue().splitlines()
    assert printed[0] == "compile kernels (30)"
    assert len(printed) == 11
    assert printed[-1] == "compile kernels 30/30: k29"


def test_a_bar_leaves_the_terminal_clean() -> None:
    stream = io.StringIO()
    with Bar(Console(file=stream, force_terminal=True, width=80)) as bar:
        bar.begin("trace")
        bar.begin("compile kernels", 2)
        bar.step("a")
        bar.step("b")
    assert "compile kernels" in stream.getvalue()
