"""The page of the example service in a real browser, over a package on processors."""

import importlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aotpack.importable import importable
from tools import check_llm

from .serving import engines, generate, serving, settled

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

NAMES = "chromium", "chromium-browser", "google-chrome"
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
QUIET = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
A_WORD = re.compile(r"\w")
WORDS = "the quick brown fox jumps over a lazy dog and runs far away".split()


class Spoken:
    """Tokens are words; a text is its length."""

    def encode(self, text: str) -> list[int]:
        return [len(text) % 256] * (len(text) // 4 + 1)

    def decoder(self) -> Callable[[int], str]:
        return lambda token: WORDS[token % len(WORDS)] + " "


@pytest.fixture(scope="module")
def package(once: Callable[[str, Callable[[Path], object]], Path]) -> Any:
    site = once("llm", lambda folder: check_llm.build("gemma3", folder)) / "tiny_gemma3"
    with importable(site):
        return importlib.import_module(site.name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=PROGRAM, args=[*QUIET])
        yield opened
        opened.close()


@pytest.fixture
def pace() -> float:
    """Each step takes as long as one of a larger model."""
    return 0.02


@pytest.fixture
def engine(package: Any, pace: float) -> Iterator[Any]:
    with package.load("cpu") as model:
        cache = generate.sequences(model)
        decode = cache.decode

        def slow(*given: Any) -> dict[int, int]:
            time.sleep(pace)
            return decode(*given)  # type: ignore[no-any-return]

        cache.decode = slow
        made = engines.Engine(cache)
        yield made
        made.close()


@pytest.fixture
def page(engine: Any, browser: Any) -> Iterator[Any]:
    """The page, whose every request and message of an error is kept."""
    with serving(engine, Spoken()) as client:
        context = browser.new_context(viewport={"width": 1000, "height": 700})
        made = context.new_page()
        made.set_default_timeout(20000)
        made.asked, made.faults = [], []
        made.on("request", lambda request: made.asked.append(request.url))
        made.on("pageerror", lambda error: made.faults.append(str(error)))
        made.goto(str(client.base_url))
        made.client = client
        yield made
        assert made.faults == []
        assert all(url.startswith((str(client.base_url), "data:")) for url in made.asked)
        context.close()


def ask(page: Any, text: str, tokens: int = 12) -> None:
    page.get_by_text("Settings").click()
    page.get_by_label("Longest answer").fill(str(tokens))
    page.get_by_label("Temperature").fill("0")
    page.get_by_text("Settings").click()
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")


def answers(page: Any) -> Any:
    return page.locator(".assistant p")


def test_an_answer_is_shown_as_it_is_made(page):
    body = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 60}
    chat = page.client.post("/v1/chat/completions", json=body).json()
    wanted = chat["choices"][0]["message"]["content"]
    ask(page, "hello", 60)
    expect(page.locator(".user p")).to_have_text("hello")
    seen = set()
    while page.locator(".busy").count():
        seen.add(answers(page).text_content())
    assert answers(page).text_content() == wanted
    assert len(seen) > 3 and all(wanted.startswith(part) for part in seen)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.get_by_label("Message")).to_be_focused()


def test_stopping_keeps_what_is_there_and_frees_the_place(page, engine):
    ask(page, "a long story", 300)
    expect(answers(page)).to_contain_text(A_WORD)
    page.get_by_role("button", name="Stop").click()
    assert settled(engine) and engine.ended["cancelled"] == 1
    kept = answers(page).text_content()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    ask(page, "another", 300)
    expect(answers(page)).to_have_count(2)
    expect(answers(page).nth(1)).to_contain_text(A_WORD)  # so the engine has the request
    page.keyboard.press("Escape")
    assert settled(engine) and engine.ended["cancelled"] == 2
    assert answers(page).first.text_content() == kept
    assert engine.tokens < 300


def test_an_error_is_shown_and_can_be_tried_again(page, engine):
    engine.most_waiting = 0
    ask(page, "hello")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("try again later")
    engine.most_waiting = 64
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_have_count(0)
    expect(answers(page)).to_contain_text(A_WORD)
    expect(page.locator(".user")).to_have_count(1)
    page.route("**/v1/chat/completions", lambda route: route.abort())
    expect(page.locator(".busy")).to_have_count(0)
    ask(page, "hello again")
    expect(alert).to_contain_text("cannot be reached")


@pytest.mark.parametrize("pace", [0.0])
def test_a_long_chat_forgets_its_oldest_messages(page, pace):
    for number in range(3):
        ask(page, f"{number} " + "word " * 80, 100)
        expect(answers(page)).to_have_count(number + 1)
        expect(page.locator(".busy")).to_have_count(0)
    expect(page.get_by_text("oldest messages are no longer sent")).to_have_count(1)
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".turn")).to_have_count(0)
    ask(page, "word " * 400)
    expect(page.get_by_role("alert")).to_contain_text("do not fit")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1000, "dark")])
def test_everything_fits_and_is_read_well(page, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 640})
    ask(page, "x" * 300)
    expect(page.locator(".busy")).to_have_count(0)
    for name in "html", "#talk":
        wide = "one => one.scrollWidth - one.clientWidth"
        assert page.locator(name).evaluate(wide) <= 0, name
    for name in ".user p", ".assistant p", "#send", "#model", "#box":
        assert contrast(page, name) >= 4.5, name
    for button in page.get_by_role("button").all():
        box = button.bounding_box()
        assert box["height"] >= 36 and box["x"] >= 0 and box["x"] + box["width"] <= width


def contrast(page: Any, name: str) -> float:
    """WCAG's ratio of the text's and the ground's luminance."""
    colours = page.evaluate(
        """(name) => {
            let ground = document.querySelector(name);
            const text = getComputedStyle(ground).color;
            const clear = "rgba(0, 0, 0, 0)";
            const behind = () => getComputedStyle(ground).backgroundColor;
            while (behind() === clear) ground = ground.parentElement;
            return [text, behind()];
        }""",
        name,
    )
    light, dark = sorted(map(luminance, colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(factor * part for factor, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_keyboard_reaches_everything(page):
    reached = []
    for _ in range(6):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none" or page.evaluate("document.activeElement === document.body")
    assert {"box", "send", "SUMMARY", "new", "talk"} <= {*reached}
