"""Services of examples/serve_llm for tests: the example's modules, and a server in a thread."""

import importlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from aotpack.importable import importable
from tools import check_llm

with importable(check_llm.FOLDER.parent / "serve_llm"), importable(check_llm.FOLDER):
    engines, servers = importlib.import_module("engine"), importlib.import_module("server")
    load, texts = importlib.import_module("load"), importlib.import_module("texts")
generate = importlib.import_module("generate")


@contextmanager
def serving(engine: Any, codec: Any) -> Iterator[httpx.Client]:
    """A client of a server on a free port."""
    app = servers.service(engine, "tiny", codec)
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


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def settled(engine: Any) -> bool:
    """True as soon as no request runs or waits."""
    until = time.monotonic() + 30
    while (engine.running or engine.waiting) and time.monotonic() < until:
        time.sleep(0.01)
    return not engine.running and not engine.waiting
