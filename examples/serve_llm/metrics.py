"""Figures of an engine in Prometheus' text format."""

from collections.abc import Iterator

from engine import Engine
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

SECONDS = 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60
REASONS = "stop", "length", "cancelled", "error", "refused"


class Figures:
    """What the engine has counted, read at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[Metric]:
        engine = self.engine
        for name, words, value in (
            ("llm_tokens", "Tokens that were made", engine.tokens),
            ("llm_prompt_tokens", "Tokens that were read", engine.prompt_tokens),
            ("llm_steps", "Turns of the engine", engine.steps),
            ("llm_put_back", "Sequences that gave their pages to others", engine.put_back),
        ):
            yield CounterMetricFamily(name, words, value)
        ended = CounterMetricFamily("llm_requests", "Requests that ended", labels=["reason"])
        for reason in REASONS:
            ended.add_metric([reason], engine.ended[reason])
        yield ended
        cache = engine.cache
        for name, words, value in (
            ("llm_requests_running", "Requests that have a place", len(engine.running)),
            ("llm_requests_waiting", "Requests that wait for one", len(engine.waiting)),
            ("llm_places", "Requests that may run at once", cache.count),
            ("llm_pages", "Pages of the cache", getattr(cache, "pages", 0)),
            ("llm_pages_unused", "Pages that no sequence has", len(getattr(cache, "unused", ()))),
        ):
            yield GaugeMetricFamily(name, words, value)


class Metrics:
    """The figures of one service."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(Figures(engine))
        kept = {"registry": self.registry, "buckets": SECONDS}
        self.first = Histogram("llm_first_token_seconds", "Time to the first token", **kept)
        self.whole = Histogram("llm_request_seconds", "Time to the end of a request", **kept)

    def text(self) -> bytes:
        return generate_latest(self.registry)
