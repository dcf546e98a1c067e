"""Load for a service of server.py: concurrent clients, each answer compared with what it must be.

python examples/serve_llm/load.py http://127.0.0.1:8000 --clients 16 --requests 200

Each request is asked once alone first. Then all run from concurrent clients, every second one as a
stream. At last the clients ask once more and leave in the middle. The exit code is 1 if an answer
is lost or is another's, or if requests of clients that left stay, end in errors, or are cancelled
for fewer than most clients: a fast service may finish some before it hears of it. It needs no
package.
"""

import argparse
import http.client
import json
import random
import re
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

WORDS = "one two three four five six seven eight nine ten".split()


@dataclass(frozen=True, slots=True)
class Answer:
    """A text with the seconds until its first piece and until its end."""

    text: str
    first: float
    whole: float


class Client:
    """The requests of one thread over one connection."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        assert place.hostname is not None, url
        self.connection = http.client.HTTPConnection(place.hostname, place.port, timeout=300)

    def ask(self, body: dict[str, Any]) -> Answer:
        """One completion; ConnectionError for another status than 200."""
        start = time.perf_counter()
        head = {"Content-Type": "application/json"}
        self.connection.request("POST", "/v1/completions", json.dumps(body), head)
        response = self.connection.getresponse()
        if response.status != 200:
            raise ConnectionError(f"status {response.status}: {response.read().decode()[:200]}")
        if not body.get("stream"):
            text = json.loads(response.read())["choices"][0]["text"]
            end = time.perf_counter() - start
            return Answer(text, end, end)
        pieces, first = [], 0.0
        for line in response:
            data = line.decode().removeprefix("data: ").strip()
            if data and data != "[DONE]":
                pieces.append(json.loads(data)["choices"][0]["text"])
                first = first or time.perf_counter() - start
        return Answer("".join(pieces), first, time.perf_counter() - start)


def requests(count: int, tokens: int) -> list[dict[str, Any]]:
    """Prompts of different lengths, greedy and drawn from a seed."""
    chosen = random.Random(0)
    return [
        {
            "prompt": f"{number} " + " ".join(chosen.choices(WORDS, k=number % 9)),
            "max_tokens": chosen.randint(1, tokens),
            "temperature": number % 2,
            "seed": number,
            "stream": number % 4 < 2,
        }
        for number in range(count)
    ]


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that ``share`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def run(url: str, bodies: Sequence[dict[str, Any]], clients: int) -> list[Answer]:
    """The answers in order, from a pool of clients."""
    own = threading.local()

    def ask(body: dict[str, Any]) -> Answer:
        if not hasattr(own, "client"):
            own.client = Client(url)
        answer: Answer = own.client.ask(body)
        return answer

    with ThreadPoolExecutor(clients) as pool:
        return [*pool.map(ask, bodies)]


def check(url: str, count: int, clients: int, tokens: int) -> bool:
    """Print counts and times; True if each answer is its own."""
    bodies = requests(count, tokens)
    alone = [one.text for one in run(url, bodies, 1)]
    start = time.perf_counter()
    found = run(url, bodies, clients)
    seconds = time.perf_counter() - start
    wrong = sum(one.text != text for one, text in zip(found, alone, strict=True))
    made = sum(body["max_tokens"] for body in bodies)
    print(f"{len(found)} of {count} answers from {clients} clients, {wrong} not their own")
    print(f"{made} tokens in {seconds:.2f} s, {made / seconds:.0f} a second")
    streams = [one.first for one, body in zip(found, bodies, strict=True) if body["stream"]]
    for what, values in (("whole answer", [one.whole for one in found]), ("first piece", streams)):
        p50, p99 = quantile(values, 0.5) * 1000, quantile(values, 0.99) * 1000
        print(f"{what}: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    return wrong == 0 and len({*alone}) > 1


def figures(url: str) -> dict[str, float]:
    """The samples of /metrics by their names, with labels."""
    with urllib.request.urlopen(f"{url}/metrics") as response:
        lines = response.read().decode().splitlines()
    return {one.rpartition(" ")[0]: float(one.rpartition(" ")[2]) for one in lines if one[0] != "#"}


def leave(url: str, clients: int) -> bool:
    """Clients that ask at once leave at the first piece; True if all end, most by cancelling."""
    before = ended(figures(url))
    with ThreadPoolExecutor(clients) as pool:
        started = sum(pool.map(leaves_early, [url] * clients))
    until = time.monotonic() + 30
    while sum((seen := ended(figures(url)) - before).values()) < started:
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    now, cancelled, finished = figures(url), seen["cancelled"], seen["stop"] + seen["length"]
    stay = sum(int(now[f"llm_requests_{where}"]) for where in ("running", "waiting"))
    print(
        f"{started} of {clients} clients left in an answer: {cancelled} requests were cancelled, "
        f"{finished} finished, {stay} stay"
    )
    all_ended = started == clients == cancelled + finished and stay == 0
    return all_ended and cancelled > finished


def leaves_early(url: str) -> bool:
    """Ask for a long answer and leave at its first piece; False if there is none."""
    body = json.dumps({"prompt": "x", "max_tokens": 200, "stream": True})
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    piece = connection.getresponse().readline()
    connection.close()
    return piece.startswith(b'data: {"id"')


def ended(samples: dict[str, float]) -> Counter[str]:
    """How many requests have ended, by the reason."""
    found = (re.fullmatch(r'llm_requests_total\{reason="(.*)"\}', name) for name in samples)
    return Counter({one[1]: int(samples[one[0]]) for one in found if one})


def main() -> None:
    """Load the service; the exit code tells whether all answers are right."""
    parser = argparse.ArgumentParser(description="load a service and check its answers")
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=32, help="the longest answer")
    given = parser.parse_args()
    is_right = check(given.url, given.requests, given.clients, given.tokens)
    sys.exit(not (is_right and leave(given.url, given.clients)))


if __name__ == "__main__":
    main()
