"""What goes over the wire: the bodies of requests, answers and errors, as OpenAI has them."""

import json
import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, Field
from slots import Choice

MOST_TOKENS = 4096  # that a request may ask for


class StreamOptions(BaseModel):
    include_usage: bool = False


class Sampling(BaseModel):
    """What both routes take."""

    model: str = ""
    max_tokens: Annotated[
        int,
        Field(
            ge=1,
            le=MOST_TOKENS,
            validation_alias=AliasChoices("max_tokens", "max_completion_tokens"),
        ),
    ] = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    seed: int | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    n: Literal[1] = 1

    def choice(self) -> Choice:
        seed = uuid.uuid4().int if self.seed is None else self.seed
        return Choice(self.temperature, self.top_k, self.top_p, seed % 2**31)

    @property
    def stops(self) -> Sequence[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class Completion(Sampling):
    """The body of /v1/completions."""

    prompt: str

    def shape(self, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "finish_reason": reason}

    whole = first = shape


class Part(BaseModel):
    type: Literal["text"]
    text: str


class Message(BaseModel):
    role: str
    content: str | list[Part]

    @property
    def text(self) -> str:
        parts = self.content
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)


class Chat(Sampling):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]

    @property
    def prompt(self) -> str:
        lines = [f"{message.role}: {message.text}" for message in self.messages]
        return "\n".join([*lines, "assistant:"])

    def shape(self, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": reason}

    def first(self, text: str, reason: str | None) -> dict[str, Any]:
        delta = {"role": "assistant", "content": text}
        return {"index": 0, "delta": delta, "finish_reason": reason}

    def whole(self, text: str, reason: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {"index": 0, "message": message, "finish_reason": reason}


def heading(asked: Completion | Chat, name: str) -> dict[str, Any]:
    """What every part of an answer begins with."""
    is_chat = isinstance(asked, Chat)
    kind = "chat.completion" if is_chat else "text_completion"
    return {
        "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
        "object": f"{kind}.chunk" if is_chat and asked.stream else kind,
        "created": int(time.time()),
        "model": name,
    }


def usage(prompt: int, made: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def failure(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """An error as clients of OpenAI's read it."""
    kinds = {429: "rate_limit_error", 503: "overloaded_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def event(body: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(body)}\n\n"
