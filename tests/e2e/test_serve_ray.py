"""The example service as two replicas of Ray Serve on this machine."""

import importlib
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from aotpack.importable import importable
from tools import check_llm

from .serving import free_port, generate, load, texts

pytestmark = pytest.mark.timeout(900)  # Ray starts many processes
ray = pytest.importorskip("ray", reason="ray is not installed")
serve = importlib.import_module("ray.serve")
PATIENCE = {
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
}
EXAMPLES = check_llm.FOLDER, check_llm.FOLDER.parent / "serve_llm"


@pytest.fixture(scope="module")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    return once("llm", lambda folder: check_llm.build("gemma3", folder)) / "tiny_gemma3"


@pytest.fixture(scope="module")
def client(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of two replicas, whose processes cannot import torch."""
    blocked = tmp_path_factory.mktemp("blocked")
    for name in "torch", "triton", "transformers", "aotpack":
        (blocked / f"{name}.py").write_text("raise ImportError('none here')\n")
    paths = os.pathsep.join(map(str, (blocked, site, *EXAMPLES)))
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, **PATIENCE}},
    )
    try:
        port = free_port()
        with suppress(TimeoutError):  # on a busy machine: it goes on starting
            serve.start(http_options={"host": "127.0.0.1", "port": port})
        with importable(EXAMPLES[1]), importable(EXAMPLES[0]):
            app = importlib.import_module("ray_app").app
        serve.run(app({"package": site.name, "replicas": "2"}))
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as made:
            wait_for(made)
            yield made
        serve.shutdown()
    finally:
        ray.shutdown()


def wait_for(client: httpx.Client) -> None:
    """Return when the proxy passes requests on."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        with suppress(httpx.HTTPError):
            if client.get("/health").status_code == 200:
                return
        time.sleep(0.5)
    raise TimeoutError("no replica is healthy")


def asked(number: int, **options: Any) -> dict[str, Any]:
    return {"prompt": f"prompt {number}", "max_tokens": 12, "temperature": 0, **options}


def test_both_replicas_answer_as_one_package_does(client, site):
    def answer(number: int) -> tuple[str, str]:
        found = client.post("/v1/completions", json=asked(number))
        return found.headers["X-Replica"], found.json()["choices"][0]["text"]

    with ThreadPoolExecutor(12) as pool:
        found = [*pool.map(answer, range(48))]
    assert len({replica for replica, _ in found}) == 2
    with importable(site):
        package = importlib.import_module(site.name)
    with package.load("cpu") as model:
        cache, codec = generate.sequences(model), texts.Bytes()
        for number, (_, text) in enumerate(found):
            decode = codec.decoder()
            tokens = generate.stream(cache, [codec.encode(f"prompt {number}")], 12)
            assert text == "".join(decode(token) for _, token in tokens)


def test_concurrent_streams_are_whole(client):
    assert load.check(str(client.base_url), 60, 8, 8)


def test_a_stream_comes_piece_by_piece_and_its_end_frees_the_place(client):
    times = []
    body = asked(1, max_tokens=250, stream=True)
    with client.stream("POST", "/v1/completions", json=body) as one:
        for _ in one.iter_lines():
            times.append(time.monotonic())
    assert len(times) > 250 and times[-1] - times[0] > 0.01
    for _ in range(20):
        with client.stream("POST", "/v1/completions", json=body) as one:
            next(one.iter_lines())
    until = time.monotonic() + 120  # Ray gathers figures now and then
    while time.monotonic() < until:
        cancelled, running = (
            reported('requests_total{.*reason="cancelled"'),
            reported("requests_running"),
        )
        if sum(cancelled) and sum(running) == 0:
            break
        time.sleep(1)
    assert sum(cancelled) > 0 and running == [0, 0]


def reported(what: str) -> list[float]:
    """Ray's figure of each replica."""
    text = httpx.get(f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics").text
    return [float(found) for found in re.findall(rf"^ray_llm_{what}.* (\S+)$", text, re.MULTILINE)]


def test_errors_pass_through(client):
    found = client.post("/v1/completions", json=asked(1, max_tokens=400))
    assert found.status_code == 400 and "do not fit" in found.json()["error"]["message"]
    assert "<h1>Chat</h1>" in client.get("/").text
    assert client.get("/metrics").status_code == 404
