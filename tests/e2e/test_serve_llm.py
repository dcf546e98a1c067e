"""The example service: concurrent requests over the slots of one package."""

import importlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aotpack.importable import importable
from tools import check_llm

from .serving import engines, generate, load, servers, serving, settled, texts

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
        made = engines.Engine(generate.sequences(model))
        yield made
        made.close()


@pytest.fixture
def client(engine: Any) -> Iterator[httpx.Client]:
    with serving(engine, texts.Bytes()) as made:
        yield made


class Changing(texts.Bytes):
    """Tokens of the thirtieth text and of later ones are others."""

    def __init__(self) -> None:
        self.texts = 0

    def decoder(self) -> Callable[[int], str]:
        self.texts += 1
        return lambda token: "!" if self.texts > 30 else chr(token)


class Foreign(texts.Bytes):
    """Of another tokenizer than the package's."""

    def encode(self, text: str) -> list[int]:
        return [999]


def test_the_program_for_load_counts_answers_that_are_anothers(client, engine, capsys):
    assert load.check(str(client.base_url), 24, 6, 4)
    told = capsys.readouterr().out
    assert "24 of 24 answers from 6 clients, 0 not their own" in told
    assert "whole answer: p50 " in told and "first piece: p50 " in told
    with slowed(engine.cache):
        assert load.leave(str(client.base_url), 6)
    wanted = "6 of 6 clients left in an answer: 6 requests were cancelled, 0 finished, 0 stay"
    assert wanted in capsys.readouterr().out
    with serving(engine, Changing()) as other:
        assert not load.check(str(other.base_url), 24, 6, 4)
    assert "24 of 24 answers from 6 clients, 0 not" not in capsys.readouterr().out
    with pytest.raises(ConnectionError, match="status 400: .*a request needs a prompt"):
        load.Client(str(client.base_url)).ask({"prompt": "", "max_tokens": 1})


def test_the_program_for_load_counts_clients_that_leave_and_are_not_cancelled(
    client, engine, capsys, monkeypatch
):
    url, submit, together = str(client.base_url), engine.submit, []

    def submitted(request: Any) -> None:
        together.append(len(engine.running) + len(engine.waiting))
        submit(request)

    monkeypatch.setattr(engine, "submit", submitted)
    with slowed(engine.cache):
        assert load.leave(url, 6)
    assert max(together) > 1  # they do not come one after another
    capsys.readouterr()
    monkeypatch.setattr(engine, "cancel", lambda *given: None)  # answers end by themselves
    assert not load.leave(url, 4)
    told = "4 of 4 clients left in an answer: 0 requests were cancelled, 4 finished, 0 stay"
    assert told in capsys.readouterr().out
    monkeypatch.undo()
    with slowed(engine.cache), deaf(engine, 2):
        assert load.leave(url, 5)
    told = "5 of 5 clients left in an answer: 3 requests were cancelled, 2 finished, 0 stay"
    assert told in capsys.readouterr().out
    engine.close()
    assert not load.leave(url, 4)
    assert "0 of 4 clients left in an answer: 0 requests" in capsys.readouterr().out


def asked(prompt: str, **options: Any) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, **options}


def test_concurrent_requests_get_what_each_gets_alone(engine, client, package):
    def answer(prompt: str) -> str:
        found = client.post("/v1/completions", json=asked(prompt)).json()
        assert found["usage"]["completion_tokens"] == TOKENS
        return str(found["choices"][0]["text"])

    with ThreadPoolExecutor(12) as pool:
        together = [*pool.map(answer, PROMPTS)]
    with package.load("cpu") as other:
        slots, words = generate.sequences(other), texts.Bytes()
        for prompt, text in zip(PROMPTS, together, strict=True):
            decode = words.decoder()
            tokens = generate.stream(slots, [words.encode(prompt)], TOKENS)
            assert text == "".join(decode(token) for _, token in tokens)
    assert len({*together}) > 1 and settled(engine)
    seen = figures(client)
    assert seen["llm_tokens_total"] == TOKENS * len(PROMPTS)
    assert seen["llm_first_token_seconds_count"] == seen["llm_request_seconds_count"] == 24


def test_a_chat_streams_what_it_answers_whole(client):
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9, "seed": 5}
    whole = client.post("/v1/chat/completions", json=body).json()["choices"][0]
    streamed = client.post("/v1/chat/completions", json=body | {"stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *events, last = streamed.text.strip().split("\n\n")
    deltas = [httpx.Response(200, text=event[6:]).json()["choices"][0] for event in events]
    assert "".join(one["delta"].get("content", "") for one in deltas) == whole["message"]["content"]
    assert deltas[-1]["finish_reason"] == whole["finish_reason"] == "length"
    assert last == "data: [DONE]"


def figures(client: httpx.Client) -> dict[str, float]:
    """What /metrics says, with the reason behind the name of what ended."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return {" ".join([one.name, *one.labels.values()]): one.value for one in samples}


@pytest.mark.parametrize("stream", [True, False])
def test_killed_clients_free_their_places(engine, client, stream):
    """Sockets are closed in the middle: of requests that run and of those that wait."""
    body = json.dumps(asked("x", max_tokens=300, stream=stream)).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    place = str(client.base_url.host), client.base_url.port
    sockets = [socket.create_connection(place) for _ in range(engine.cache.count + 3)]
    with slowed(engine.cache):
        for one in sockets:
            one.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        reach(lambda: len(engine.running) == engine.cache.count and len(engine.waiting) == 3)
        seen = figures(client)
        assert seen["llm_requests_running"] == 8 and seen["llm_requests_waiting"] == 3
        for one in sockets:
            one.close()
        assert settled(engine)
    seen = figures(client)
    assert seen["llm_requests_total cancelled"] == len(sockets)
    assert seen["llm_requests_running"] == seen["llm_requests_waiting"] == 0
    assert seen["llm_tokens_total"] < 300 * engine.cache.count
    assert client.post("/v1/completions", json=asked("x")).status_code == 200


@contextmanager
def slowed(cache: Any) -> Iterator[None]:
    """Each step takes as long as one of a larger model."""
    decode = cache.decode

    def slow(*given: Any) -> dict[int, int]:
        time.sleep(0.02)
        return decode(*given)  # type: ignore[no-any-return]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "decode", slow)
        yield


@contextmanager
def deaf(engine: Any, count: int) -> Iterator[None]:
    """Some requests end by themselves: as if they were over when their callers leave."""
    cancel, spared = engine.cancel, []

    def late(request: Any, *reason: str) -> None:
        if len(spared) < count and request not in spared:
            spared.append(request)
        if request not in spared:
            cancel(request, *reason)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "cancel", late)
        yield


def reach(is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not is_there():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_failing_step_is_told_to_those_whom_it_meets_and_to_no_others(engine, client):
    decode, failures = engine.cache.decode, iter([RuntimeError("the device is gone")])

    def fail(*given: Any) -> dict[int, int]:
        for error in failures:
            raise error
        return decode(*given)  # type: ignore[no-any-return]

    engine.cache.decode = fail
    found = client.post("/v1/completions", json=asked("x"))
    assert found.status_code == 503 and "the device is gone" in found.json()["error"]["message"]
    failures = iter([RuntimeError("again")])
    *_, last, done = client.post("/v1/completions", json=asked("x", stream=True)).text.split(
        "data: "
    )
    assert json.loads(last)["error"]["message"] == "RuntimeError: again" and "[DONE]" in done
    assert client.post("/v1/completions", json=asked("x")).status_code == 200
    assert figures(client)["llm_requests_total error"] == 2


def test_a_text_ends_in_front_of_a_word_that_stops_it(engine, client):
    whole = client.post("/v1/completions", json=asked("x")).json()["choices"][0]["text"]
    for stream in False, True:
        options = {"max_tokens": 300, "stop": ["never", whole[4:6]]}
        body = asked("x", **options, stream=stream, stream_options={"include_usage": True})
        found = client.post("/v1/completions", json=body)
        if stream:
            *events, last = found.text.strip().split("\n\n")[:-1]
            choices = [json.loads(one[6:])["choices"][0] for one in events]
            text, used = "".join(one["text"] for one in choices), json.loads(last[6:])["usage"]
        else:
            choices, used = found.json()["choices"], found.json()["usage"]
            text = choices[0]["text"]
        assert text == whole[: whole.index(whole[4:6])]
        assert choices[-1]["finish_reason"] == "stop"
        assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]
        assert used["completion_tokens"] < TOKENS
    assert settled(engine) and figures(client)["llm_requests_total stop"] == 2


def test_a_cancelled_request_makes_no_more_tokens(engine):
    events: list[tuple[int | None, str]] = []
    ended = threading.Event()

    def hear(token: int | None, reason: str) -> None:
        events.append((token, reason))
        if len(events) == 3:
            engine.cancel(request)
        if token is None:
            ended.set()

    request = engines.Request([1, 2, 3], 300, hear)
    engine.submit(request)
    assert ended.wait(30)
    assert [reason for _, reason in events] == ["", "", "", "cancelled"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (asked("x", temperature=3), 400, "temperature: Input should be less than or equal to 2"),
        (asked("x", max_tokens=400), 400, "400 more do not fit: the cache holds 319"),
        (asked(""), 400, "a request needs a prompt"),
        ({}, 400, "prompt: Field required"),
        ([], 400, "the body: Input should be a valid dictionary"),
        (asked("x", model="x"), 404, "the model 'x' does not exist; this service has 'tiny'"),
        (asked("x", n=2), 400, "n: Input should be 1, and 2 was given"),
        (asked("x", temperature="1"), 400, "temperature: Input should be a valid number, and '1'"),
        (asked("x", max_tokens="5"), 400, "max_tokens: Input should be a valid integer, and '5'"),
        (asked("x", stream=1), 400, "stream: Input should be a valid boolean, and 1 was given"),
        (asked("x", temperature=-2), 400, "temperature: Input should be greater than or equal to"),
        (asked("x", temperature=1e-7), 400, "temperature is 1e-07; accepted: 0 (greedy), or 1e-6"),
        (asked("x", top_p=2), 400, "top_p: Input should be less than or equal to 1, and 2 was"),
        (asked("x", top_p=0), 400, "top_p: Input should be greater than 0, and 0 was given"),
        (asked("x", top_k=-1), 400, "top_k: Input should be greater than or equal to 0, and -1"),
        (asked("x", top_k=2**63), 400, "top_k is 9223372036854775808; accepted: 0 (all tokens)"),
        (asked("x", seed=2**63), 400, "seed: Input should be less than 9223372036854775808"),
        (asked("x", max_tokens=-1), 400, "max_tokens: Input should be greater than or equal to 1"),
        (asked("x", logprobs=0), 400, f"logprobs: {servers.UNKNOWN}, and 0 was given"),
        (asked("x", min_p=0.1), 400, f"min_p: {servers.UNKNOWN}, and 0.1 was given"),
        (asked("x", echo=True), 400, "echo: Input should be False, and True was given"),
        (asked("x", best_of=3), 400, "best_of: Input should be 1, and 3 was given"),
        (asked("x", suffix="y"), 400, "suffix: Input should be '', and 'y' was given"),
        (asked("x", logit_bias={"5": 1}), 400, "logit_bias: Dictionary should have at most 0"),
        (asked("x", presence_penalty=1), 400, "presence_penalty: Input should be less than or"),
        (asked("x", frequency_penalty=-1), 400, "frequency_penalty: Input should be greater than"),
        (asked("x", stream_options={"x": 1}), 400, f"stream_options.x: {servers.UNKNOWN}"),
        (asked("x" * (1 << 20)), 413, "more than 1048576 bytes"),
    ],
)
def test_other_requests_are_refused(client, body, status, words):
    found = client.post("/v1/completions", json=body)
    assert found.status_code == status and words in found.json()["error"]["message"]
    assert client.post("/v1/completions", json=asked("x")).status_code == 200


def test_numbers_that_json_has_not_are_refused(client):
    for word in "NaN", "Infinity":
        for name in "temperature", "top_p":
            body = f'{{"prompt": "x", "{name}": {word}}}'
            head = {"content-type": "application/json"}
            found = client.post("/v1/completions", content=body, headers=head)
            told = found.json()["error"]["message"]
            assert found.status_code == 400 and told.startswith(f"{name}: Input should be")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"logprobs": True}, "logprobs: Input should be False, and True was given"),
        ({"top_logprobs": 3}, "top_logprobs: Input should be 0, and 3 was given"),
        ({"response_format": {"type": "json_object"}}, "response_format.type: Input should be 'te"),
        ({"tools": [{"type": "function"}]}, "tools: List should have at most 0 items"),
        ({"tool_choice": "required"}, "tool_choice: Input should be 'none' or 'auto'"),
        ({"echo": True}, f"echo: {servers.UNKNOWN}, and True was given"),
        ({"messages": [{"role": "user", "content": "x", "name": "y"}]}, "messages.0.name: This"),
    ],
)
def test_a_chat_that_asks_for_what_is_not_there_is_refused(client, options, words):
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    found = client.post("/v1/chat/completions", json=body | options)
    assert found.status_code == 400 and words in found.json()["error"]["message"]


def test_fields_that_change_no_answer_are_taken(client):
    """Those of OpenAI's clients beside the text, and values that ask for what is given anyway."""
    both = {"user": "me", "metadata": {"a": "b"}, "n": 1, "presence_penalty": 0.0, "logit_bias": {}}
    whole = {"best_of": 1, "echo": False, "suffix": None, "logprobs": None, "temperature": None}
    chat = {"logprobs": False, "tools": [], "response_format": {"type": "text"}, "store": True}
    said = {"role": "assistant", "content": "x", "refusal": None, "annotations": []}
    for path, own in (
        ("completions", asked("x") | whole),
        ("chat/completions", {"messages": [said], "max_completion_tokens": 3} | chat),
    ):
        found = client.post(f"/v1/{path}", json=both | own)
        assert found.status_code == 200, found.text


def test_tokens_that_the_package_has_not_are_refused(engine):
    with serving(engine, Foreign()) as other:
        found = other.post("/v1/completions", json=asked("x"))
        told = "the prompt has the token 999; the package has the tokens 0 to 255"
        assert found.status_code == 400 and told in found.json()["error"]["message"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny_gemma3", "--stop", "256"], "--stop has the token 256; the package has the tokens"),
        (["tiny_gema3"], "importing 'tiny_gema3': there is no module of this name"),
    ],
)
def test_a_service_that_cannot_be_is_refused_in_a_line(
    package, monkeypatch, capsys, words, message
):
    monkeypatch.setattr("sys.argv", ["server.py", *words])
    with pytest.raises(SystemExit) as ended:
        servers.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and message in line


def test_a_body_without_its_type_and_other_paths_are_refused_in_openais_form(client):
    def refused(status: int, method: str, path: str, **options: Any) -> str:
        found = client.request(method, path, **options)
        assert found.status_code == status
        assert found.json()["error"]["type"] == "invalid_request_error"
        return str(found.json()["error"]["message"])

    for kind in ({}, {"content-type": "application/x-www-form-urlencoded"}):
        body = json.dumps(asked("x"))
        told = refused(400, "POST", "/v1/completions", content=body, headers=kind)
        assert told.startswith("the body: ")
        assert told.endswith("; send content-type: application/json)")
    assert "GET /v1/lost: Not Found" in refused(404, "GET", "/v1/lost")
    assert "GET /v1/completions: Method Not" in refused(405, "GET", "/v1/completions")
    assert client.post("/v1/completions", json=asked("x", model="tiny")).status_code == 200


def test_a_full_queue_says_so(engine, client):
    engine.most_waiting = 0
    found = client.post("/v1/completions", json=asked("x"))
    assert found.status_code == 429 and found.headers["Retry-After"] == "1"
    assert found.json()["error"]["type"] == "rate_limit_error"
    assert figures(client)["llm_requests_total refused"] == 1


def test_a_closed_engine_is_not_healthy(engine, client):
    engine.close()
    assert client.get("/health").status_code == 503
    assert client.post("/v1/completions", json=asked("x")).status_code == 429


def test_the_page_is_served_beside_health_and_the_model(client):
    assert "<h1>Chat</h1>" in client.get("/").text
    assert "default-src 'self'" in client.get("/").headers["Content-Security-Policy"]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/v1/models").json()["data"][0]["id"] == "tiny"
