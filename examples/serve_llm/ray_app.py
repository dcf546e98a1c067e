"""The service of server.py as replicas of Ray Serve, on the machines of a cluster.

PYTHONPATH=examples/llm:examples/serve_llm serve run ray_app:app package=tiny_gemma3 replicas=2

It needs ray[serve] beside what the server needs, and the package on each machine; no torch. Each
replica loads the package; the answers name theirs in the header X-Replica. Ray's metrics have the
figures of each.
"""

import importlib
import threading
from typing import Any

from engine import Engine
from fastapi import FastAPI
from generate import sequences
from metrics import Figures
from ray import serve
from ray.serve import metrics
from server import service
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from texts import codec_of

SECONDS = 2.0  # between two reports of figures


class Named:
    """An application whose answers name the replica that gave them."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self.app, self.name = app, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Replica"] = self.name
            await send(message)

        await self.app(scope, receive, named)


@serve.ingress()
class Replica:
    """One loaded package with its engine."""

    def __init__(self, package: str, tokenizer: str, waiting: int) -> None:
        self.package = package
        self.model = importlib.import_module(package).load()
        cache = sequences(self.model)
        self.codec = codec_of(tokenizer, cache.vocabulary)
        self.engine = Engine(cache, waiting)
        self.gauges: dict[str, metrics.Gauge] = {}
        self.is_over = threading.Event()
        threading.Thread(target=self.report, daemon=True).start()

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = service(self.engine, self.package, self.codec, has_metrics=False)
        app.add_middleware(Named, name=serve.get_replica_context().replica_tag)
        return app

    def report(self) -> None:
        """Tell Ray the figures of the engine, until the replica ends."""
        while not self.is_over.wait(SECONDS):
            samples = (one for family in Figures(self.engine).collect() for one in family.samples)
            for one in samples:
                if one.name not in self.gauges:
                    self.gauges[one.name] = metrics.Gauge(one.name, tag_keys=(*one.labels,))
                self.gauges[one.name].set(one.value, tags=one.labels)

    def check_health(self) -> None:
        """Ray starts another replica in place of one that raises here."""
        if not self.engine.is_alive:
            raise RuntimeError("the engine has ended")

    def __del__(self) -> None:
        self.is_over.set()
        self.engine.close()
        self.model.close()


def app(given: dict[str, str]) -> Any:
    """The deployment: ``package``, ``replicas``, ``cpus`` and ``gpus`` of each, ``waiting``."""
    cpus, waiting = int(given.get("cpus", "1")), int(given.get("waiting", "64"))
    options = {
        "num_cpus": cpus,
        "num_gpus": float(given.get("gpus", "0")),
        "runtime_env": {"env_vars": {"AOTPACK_THREADS": str(cpus)}},
    }
    deployment = serve.deployment(
        Replica,
        num_replicas=int(given.get("replicas", "2")),
        max_ongoing_requests=4 * waiting,  # the engine refuses what is too much
        ray_actor_options=options,
    )
    return deployment.bind(given["package"], given.get("tokenizer", ""), waiting)
