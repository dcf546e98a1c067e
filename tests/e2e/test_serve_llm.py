"""The example service: concurrent requests over the slots of one package."""

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from aotpack.importable import importable
from tools import check_llm

generate = check_llm.example("generate")
with importable(check_llm.FOLDER.parent / "serve_llm"), importable(check_llm.FOLDER):
    engines, servers = importlib.import_module("engine"), importlib.import_module("server")
    load = importlib.import_module("load")

PROMPTS = [f"prompt {number} " * (number % 5 + 1) for number in range(24)]
TOKENS = 12


@pytest.fixture(scope="module")
def package(once: Callable[[str, Callable[[Path], object]], Path]) -> Any:
    site = once("llm", lambda folder: check_llm.build("gemma3", folder)) / "tiny_gemma3"
    with importable(site):
        return importlib.import_module(site.name)


@pytest.fixture
def engine(package: Any) -> Iterator[Any]:
    with package.load("cpu") as model:
        made = engines.Engine(generate.Slots(model))
        yield made
        made.close()


@contextmanager
def serving(engine: Any, words: Any) -> Iterator[httpx.Client]:
    """A client of a server on a free port."""
    app = servers.service(engine, "tiny", words)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as made:
        yield made
    server.should_exit = True
    thread.join()


@pytest.fixture
def client(engine: Any) -> Iterator[httpx.Client]:
    with serving(engine, servers.Bytes()) as made:
        yield made


class Changing(servers.Bytes):
    """Tokens of the thirtieth text and of later ones are others."""

    def __init__(self) -> None:
        self.texts = 0

    def decoder(self) -> Callable[[int], str]:
        self.texts += 1
        return lambda token: "!" if self.texts > 30 else chr(token)


def test_the_program_for_load_counts_answers_that_are_anothers(client, engine, capsys):
    assert load.check(str(client.base_url), 24, 6, 4)
    told = capsys.readouterr().out
    assert "24 of 24 answers from 6 clients, 0 not their own" in told
    assert "whole answer: p50 " in told and "first piece: p50 " in told
    with serving(engine, Changing()) as other:
        assert not load.check(str(other.base_url), 24, 6, 4)
    assert "24 of 24 answers from 6 clients, 0 not" not in capsys.readouterr().out
    with pytest.raises(ConnectionError, match="status 400: .*a request needs a prompt"):
        load.Client(str(client.base_url)).ask({"prompt": "", "max_tokens": 1})


def asked(prompt: str, **options: Any) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, **options}


def settled(engine: Any) -> bool:
    """True as soon as no request runs or waits."""
    until = time.monotonic() + 30
    while (engine.running or engine.waiting) and time.monotonic() < until:
        time.sleep(0.01)
    return not engine.running and not engine.waiting


def test_concurrent_requests_get_what_each_gets_alone(engine, client, package):
    def answer(prompt: str) -> str:
        found = client.post("/v1/completions", json=asked(prompt)).json()
        assert found["usage"]["completion_tokens"] == TOKENS
        return str(found["choices"][0]["text"])

    with ThreadPoolExecutor(12) as pool:
        together = [*pool.map(answer, PROMPTS)]
    with package.load("cpu") as other:
        slots, words = generate.Slots(other), servers.Bytes()
        for prompt, text in zip(PROMPTS, together, strict=True):
            decode = words.decoder()
            tokens = generate.stream(slots, [words.encode(prompt)], TOKENS)
            assert text == "".join(decode(token) for _, token in tokens)
    assert len({*together}) > 1 and settled(engine)
    assert f"llm_tokens_total {TOKENS * len(PROMPTS)}\n" in client.get("/metrics").text


def test_a_chat_streams_what_it_answers_whole(client):
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9, "seed": 5}
    whole = client.post("/v1/chat/completions", json=body).json()["choices"][0]
    streamed = client.post("/v1/chat/completions", json=body | {"stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *events, last = streamed.text.strip().split("\n\n")
    deltas = [httpx.Response(200, text=event[6:]).json()["choices"][0] for event in events]
    assert "".join(one["delta"]["content"] for one in deltas) == whole["message"]["content"]
    assert deltas[-1]["finish_reason"] == whole["finish_reason"] == "length"
    assert last == "data: [DONE]"


def test_a_client_that_leaves_frees_its_slot(engine, client):
    body = asked("x", max_tokens=300, stream=True)
    for _ in range(engine.slots.count + 1):
        with client.stream("POST", "/v1/completions", json=body) as response:
            next(response.iter_lines())
    assert settled(engine)
    assert engine.tokens < 300 * (engine.slots.count + 1)
    assert client.post("/v1/completions", json=asked("x")).status_code == 200


def test_a_cancelled_request_makes_no_more_tokens(engine):
    events: list[tuple[int | None, str]] = []
    ended = threading.Event()

    def hear(token: int | None, reason: str) -> None:
        events.append((token, reason))
        if len(events) == 3:
            request.is_cancelled = True
        if token is None:
            ended.set()

    request = engines.Request([1, 2, 3], 300, hear)
    engine.submit(request)
    assert ended.wait(30)
    assert [reason for _, reason in events] == ["", "", "", "cancelled"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (asked("x", temperature=3), 422, "less than or equal to 2"),
        (asked("x", max_tokens=400), 400, "400 more do not fit: the cache holds 319"),
        (asked(""), 400, "a request needs a prompt"),
        ({}, 422, "Field required"),
    ],
)
def test_other_requests_are_refused(client, body, status, words):
    found = client.post("/v1/completions", json=body)
    assert found.status_code == status and words in found.text
    assert client.post("/v1/completions", json=asked("x")).status_code == 200


def test_a_full_queue_says_so(engine, client):
    engine.most_waiting = 0
    found = client.post("/v1/completions", json=asked("x"))
    assert found.status_code == 429 and found.headers["Retry-After"] == "1"


def test_the_page_is_served_beside_health_and_the_model(client):
    assert "<h1>Chat</h1>" in client.get("/").text
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/v1/models").json()["data"][0]["id"] == "tiny"
