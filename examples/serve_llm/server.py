"""A service over a package of examples/llm: OpenAI's routes, streamed, with continuous batching.

PYTHONPATH=examples/llm python examples/serve_llm/server.py tiny_gemma3 --port 8000

It needs fastapi, uvicorn and prometheus-client, and tokenizers for --tokenizer; no torch. Without a
tokenizer, bytes are tokens, for packages of 256 tokens.
"""

import argparse
import asyncio
import contextlib
import reprlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from engine import Busy, Engine
from engine import Request as Job
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from generate import package, sequences
from limits import LimitedBodies
from metrics import Metrics
from slots import refuse_foreign
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.types import Receive, Scope, Send
from texts import Codec, Until, codec_of
from wire import Chat, Completion, event, failure, heading, usage

PAGE = Path(__file__).with_name("page.html")
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
UNKNOWN = "This service does not have it; leave it out, for the answer would not heed it"


class Broken(Exception):
    """A request ended before its text did."""


class Answer:
    """One request: its job in the engine, and the pieces of text that come from it."""

    def __init__(self, server: "Server", asked: Completion | Chat) -> None:
        self.server, self.asked, self.since = server, asked, time.monotonic()
        self.head = heading(asked, server.name)
        self.events: asyncio.Queue[tuple[int | None, str]] = asyncio.Queue()
        self.loop, self.tokens = asyncio.get_running_loop(), 0
        prompt, stop = server.codec.encode(asked.prompt), frozenset(server.stop)
        self.job = Job(prompt, asked.max_tokens, self.hear, asked.choice(), stop)
        server.engine.submit(self.job)

    def hear(self, token: int | None, reason: str) -> None:
        """Called by the engine's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self.loop.call_soon_threadsafe(self.events.put_nowait, (token, reason))

    async def pieces(self) -> AsyncGenerator[tuple[str, str | None]]:
        """Text as it becomes whole; with the last piece comes the reason of the end."""
        decode, until = self.server.codec.decoder(), Until(self.asked.stops)
        token, reason = await self.events.get()
        self.server.metrics.first.observe(time.monotonic() - self.since)
        while token is not None:
            self.tokens += 1
            text = until(decode(token))
            if until.is_over:
                self.server.engine.cancel(self.job, "stop")
                yield text, "stop"
                return
            yield text, None
            token, reason = await self.events.get()
        if reason not in ("stop", "length"):
            raise Broken(reason)
        yield until.rest(), reason

    async def streamed(self) -> AsyncIterator[str]:
        """Server-sent events."""
        shape = self.asked.first
        try:
            async for text, reason in self.pieces():
                yield event({**self.head, "choices": [shape(text, reason)]})
                shape = self.asked.shape
            if self.asked.stream_options.include_usage:
                yield event({**self.head, "choices": [], "usage": self.usage()})
        except Broken as error:
            yield event(failure(503, str(error)))
        yield "data: [DONE]\n\n"

    async def whole(self) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        found = [piece async for piece in self.pieces()]
        choice = self.asked.whole("".join(text for text, _ in found), found[-1][1])
        return {**self.head, "choices": [choice], "usage": self.usage()}

    def usage(self) -> dict[str, int]:
        """The tokens of the prompt and of the answer; the engine may have made more."""
        return usage(len(self.job.prompt), self.tokens)

    def close(self) -> None:
        """Free its place, if it still has one."""
        self.server.engine.cancel(self.job)
        self.server.metrics.whole.observe(time.monotonic() - self.since)


class Stream(StreamingResponse):
    """The events of an answer, which ends when the caller leaves, even before the first event."""

    def __init__(self, answer: Answer) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(answer.streamed(), headers=headers, media_type="text/event-stream")
        self.answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.answer.close()


async def unless_left(caller: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """The result of ``work``; it is cancelled if the caller leaves."""

    async def leaving() -> None:
        while (await caller.receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.create_task(work), asyncio.create_task(leaving())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return JSONResponse(await tasks[0]) if tasks[0].done() else Response(status_code=499)
    finally:
        for task in tasks:
            task.cancel()


class Server:
    """The routes of one engine."""

    def __init__(self, engine: Engine, name: str, codec: Codec, stop: Sequence[int] = ()) -> None:
        self.engine, self.name, self.codec, self.stop = engine, name, codec, stop
        self.metrics, self.since = Metrics(engine), int(time.time())

    async def completions(self, asked: Completion, caller: Request) -> Response:
        return await self.answer(asked, caller)

    async def chat(self, asked: Chat, caller: Request) -> Response:
        return await self.answer(asked, caller)

    async def answer(self, asked: Completion | Chat, caller: Request) -> Response:
        """Errors of the request are a status, also of one that is to be streamed."""
        if asked.model not in ("", self.name):
            raise HTTPException(
                404, f"the model {asked.model!r} does not exist; this service has {self.name!r}"
            )
        try:
            answer = Answer(self, asked)
        except Busy as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        if asked.stream:
            return Stream(answer)
        try:
            return await unless_left(caller, answer.whole())
        except Broken as error:
            raise HTTPException(503, str(error)) from None
        finally:
            answer.close()

    def models(self) -> dict[str, Any]:
        model = {"id": self.name, "object": "model", "created": self.since, "owned_by": "aotpack"}
        return {"object": "list", "data": [model]}

    def health(self) -> Response:
        """200 as long as the engine takes requests."""
        is_well = self.engine.is_alive
        return JSONResponse({"status": "ok" if is_well else "closed"}, 200 if is_well else 503)

    def figures(self) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    def page(self) -> FileResponse:
        return FileResponse(PAGE, headers=PAGE_HEADERS)


def fault(found: Mapping[str, Any]) -> str:
    """Where in a body a fault is, what is accepted there, and what was given."""
    place = ".".join(map(str, found["loc"][1:])) or "the body"
    if found["type"] in ("missing", "json_invalid"):
        return f"{place}: {found['msg']}"
    accepted = UNKNOWN if found["type"] == "extra_forbidden" else found["msg"]
    return f"{place}: {accepted}, and {reprlib.repr(found['input'])} was given"


def service(
    engine: Engine,
    name: str,
    codec: Codec,
    stop: Sequence[int] = (),
    *,
    has_metrics: bool = True,
) -> FastAPI:
    """The application of one engine."""
    app, server = FastAPI(title=name), Server(engine, name, codec, stop)
    app.add_middleware(LimitedBodies)
    app.post("/v1/completions", response_model=None)(server.completions)
    app.post("/v1/chat/completions", response_model=None)(server.chat)
    app.get("/v1/models")(server.models)
    app.get("/health", response_model=None)(server.health)
    if has_metrics:
        app.get("/metrics", response_model=None)(server.figures)
    app.get("/", response_model=None)(server.page)

    @app.exception_handler(AnyHTTPException)
    async def refused(caller: Request, error: AnyHTTPException) -> JSONResponse:
        """Those of the routes above, and of starlette for other paths and methods."""
        told, code = error.detail, None
        if not isinstance(error, HTTPException):
            told = f"{caller.method} {caller.url.path}: {told}; see /docs for what there is"
        elif error.status_code == 404:
            code = "model_not_found"
        elif "do not fit" in told:
            code = "context_length_exceeded"
        body = failure(error.status_code, told, code)
        return JSONResponse(body, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(caller: Request, error: RequestValidationError) -> JSONResponse:
        told = "; ".join(map(fault, error.errors()))
        kind = caller.headers.get("content-type", "")
        if "json" not in kind.lower():
            told += f" (the content type is {kind!r}; send content-type: application/json)"
        return JSONResponse(failure(400, told), 400)

    return app


def main() -> None:
    """Load the package and serve it."""
    parser = argparse.ArgumentParser(description="serve an installed package")
    parser.add_argument("package")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--tokenizer", metavar="tokenizer.json")
    parser.add_argument("--stop", type=int, nargs="*", default=[], help="tokens that end a text")
    parser.add_argument("--waiting", type=int, default=64, help="requests that may wait")
    given = parser.parse_args()
    try:
        model = package(given.package).load()
        cache = sequences(model)
        refuse_foreign("--stop", given.stop, cache.vocabulary)
        codec = codec_of(given.tokenizer, cache.vocabulary)
    except ValueError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    with model:
        engine = Engine(cache, given.waiting)
        try:
            app = service(engine, given.package, codec, given.stop)
            uvicorn.run(app, host=given.host, port=given.port, timeout_graceful_shutdown=5)
        finally:
            engine.close()


if __name__ == "__main__":
    main()
