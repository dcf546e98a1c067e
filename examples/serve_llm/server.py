"""A service over a package of examples/llm: OpenAI's routes, streamed, with continuous batching.

PYTHONPATH=examples/llm python examples/serve_llm/server.py tiny_gemma3 --port 8000

It needs fastapi and uvicorn, and tokenizers for --tokenizer; no torch. Without a tokenizer, bytes
are tokens.
"""

import argparse
import asyncio
import codecs
import importlib
import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from engine import Busy, Engine, Request
from fastapi import FastAPI, HTTPException
from fastapi import Request as HTTPRequest
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from generate import Choice, Slots
from pydantic import BaseModel, Field

PAGE = Path(__file__).with_name("page.html")
Decode = Callable[[int], str]


class Bytes:
    """Tokens are bytes of UTF-8."""

    def encode(self, text: str) -> list[int]:
        return [*text.encode()]

    def decoder(self) -> Decode:
        """Text as it becomes whole, token by token."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda token: decoder.decode(bytes([token % 256]))


class Words:
    """The tokens of a tokenizer.json."""

    def __init__(self, file: str) -> None:
        self.tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(file)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)

    def decoder(self) -> Decode:
        """Text as it becomes whole, token by token."""
        tokens: list[int] = []
        shown = ""

        def decode(token: int) -> str:
            nonlocal shown
            tokens.append(token)
            text = self.tokenizer.decode(tokens)
            if text.endswith("\ufffd"):
                return ""
            new, shown = text[len(shown) :], text
            return new

        return decode


class Sampling(BaseModel):
    """What both routes take."""

    model: str = ""
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    seed: int | None = None
    stream: bool = False

    def choice(self) -> Choice:
        seed = uuid.uuid4().int % 2**31 if self.seed is None else self.seed
        return Choice(self.temperature, self.top_k, self.top_p, seed)


class Completion(Sampling):
    prompt: str


class Message(BaseModel):
    role: str
    content: str


class Chat(Sampling):
    messages: list[Message]

    @property
    def prompt(self) -> str:
        lines = [f"{message.role}: {message.content}" for message in self.messages]
        return "\n".join([*lines, "assistant:"])


async def pieces(engine: Engine, request: Request) -> AsyncGenerator[tuple[int | None, str]]:
    """The tokens of a request, then the reason of its end; it is cancelled if nobody listens."""
    events: asyncio.Queue[tuple[int | None, str]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear(*event: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(events.put_nowait, event)

    request.listener = hear
    try:
        engine.submit(request)
    except Busy as error:
        raise HTTPException(429, str(error), {"Retry-After": "1"}) from None
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    try:
        while True:
            event = await events.get()
            yield event
            if event[0] is None:
                return
    finally:
        engine.cancel(request)


def service(engine: Engine, name: str, words: Any, stop: Sequence[int] = ()) -> FastAPI:
    """The routes of one engine."""
    app = FastAPI(title=name)

    async def answer(
        asked: Completion | Chat, caller: HTTPRequest, kind: str, shape: Callable[..., Any]
    ) -> Response:
        head = {"id": f"{kind}-{uuid.uuid4().hex}", "created": int(time.time()), "model": name}
        prompt = words.encode(asked.prompt)
        request = Request(
            prompt, asked.max_tokens, lambda *_: None, asked.choice(), frozenset(stop)
        )
        found, decode = pieces(engine, request), words.decoder()
        first = await anext(found)  # an error of the request is a status, not an event
        if asked.stream:
            events = streamed(first, found, decode, head, shape)
            return StreamingResponse(events, media_type="text/event-stream")
        text, (token, reason) = "", first
        async with aclosing(found):
            while token is not None and not await caller.is_disconnected():
                text += decode(token)
                token, reason = await anext(found)
        if reason not in ("stop", "length"):
            raise HTTPException(503, reason)
        used = {"prompt_tokens": len(prompt), "completion_tokens": request.made}
        body = {**head, "choices": [shape(text, reason, whole=True)], "usage": used}
        return Response(json.dumps(body), media_type="application/json")

    @app.post("/v1/completions")
    async def completions(asked: Completion, caller: HTTPRequest) -> Response:
        return await answer(asked, caller, "cmpl", of_completion)

    @app.post("/v1/chat/completions")
    async def chat(asked: Chat, caller: HTTPRequest) -> Response:
        return await answer(asked, caller, "chatcmpl", of_chat)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model"}]}

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    def metrics() -> PlainTextResponse:
        return PlainTextResponse(metrics_of(engine))

    @app.get("/")
    def page() -> FileResponse:
        return FileResponse(PAGE)

    return app


async def streamed(
    first: tuple[int | None, str],
    rest: AsyncGenerator[tuple[int | None, str]],
    decode: Decode,
    head: dict[str, Any],
    shape: Callable[..., Any],
) -> AsyncIterator[str]:
    """Server-sent events; leaving them early cancels the request."""
    token, reason = first
    async with aclosing(rest):
        while token is not None:
            yield event({**head, "choices": [shape(decode(token), None)]})
            token, reason = await anext(rest)
    yield event({**head, "choices": [shape("", reason)]})
    yield "data: [DONE]\n\n"


def event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body)}\n\n"


def of_completion(text: str, reason: str | None, *, whole: bool = False) -> dict[str, Any]:
    return {"index": 0, "text": text, "finish_reason": reason}


def of_chat(text: str, reason: str | None, *, whole: bool = False) -> dict[str, Any]:
    part = {"role": "assistant", "content": text} if whole else {"content": text}
    return {"index": 0, "message" if whole else "delta": part, "finish_reason": reason}


def metrics_of(engine: Engine) -> str:
    """Prometheus' text format."""
    rows = {
        "llm_tokens_total counter": engine.tokens,
        "llm_requests_finished_total counter": engine.finished,
        "llm_requests_running gauge": len(engine.running),
        "llm_requests_waiting gauge": len(engine.waiting),
        "llm_slots gauge": engine.slots.count,
    }
    return "".join(f"# TYPE {row}\n{row.split()[0]} {value}\n" for row, value in rows.items())


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
    words = Words(given.tokenizer) if given.tokenizer else Bytes()
    with importlib.import_module(given.package).load() as model:
        engine = Engine(Slots(model), given.waiting)
        try:
            app = service(engine, given.package, words, given.stop)
            uvicorn.run(app, host=given.host, port=given.port)
        finally:
            engine.close()


if __name__ == "__main__":
    main()
