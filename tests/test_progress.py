import io
import re

from rich.console import Console

from aotpack.progress import Bar, EveryStep, PlainLines, Quiet, chosen_reporter


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


def test_every_step_has_a_line_with_its_time() -> None:
    stream = io.StringIO()
    lines = EveryStep(stream)
    lines.begin("compile kernels", 2)
    lines.step("a")
    assert re.fullmatch(
        r" +[0-9.]+ s  compile kernels \(2\)\n +[0-9.]+ s    a\n", stream.getvalue()
    )


def test_options_choose_the_reporter() -> None:
    assert isinstance(chosen_reporter(quiet=True), Quiet)
    assert isinstance(chosen_reporter(verbose=True), EveryStep)
    assert isinstance(chosen_reporter(), PlainLines)  # standard error of a test is no terminal
