"""What goes over the wire: the bodies of requests, answers and errors, as OpenAI has them."""

import json
import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from slots import Choice

MOST_TOKENS = 4096  # that a request may ask for


Zero = Annotated[float, Field(ge=0, le=0)]
Empty = Field(max_length=0)


class Body(BaseModel):
    """Fields that are not here are refused: the answer would not heed them. "1" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, given: Any) -> Any:
        """A field that is null is one that is left out."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class StreamOptions(Body):
    include_usage: bool = False
    include_obfuscation: Any = None


class Unheeded(Body):
    """Fields of OpenAI's that change no answer, and others that may only ask for what is given."""

    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    n: Literal[1] = 1
    presence_penalty: Zero = 0
    frequency_penalty: Zero = 0
    logit_bias: Annotated[dict[str, float], Empty] = {}


class Sampling(Unheeded):
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
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()

    def choice(self) -> Choice:
        seed = uuid.uuid4().int if self.seed is None else self.seed
        return Choice(self.temperature, self.top_k, self.top_p, seed % 2**31)

    @property
    def stops(self) -> Sequence[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class Completion(Sampling):
    """The body of /v1/completions."""

    prompt: str
    best_of: Literal[1] = 1
    echo: Literal[False] = False
    suffix: Literal[""] = ""

    def shape(self, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "finish_reason": reason}

    whole = first = shape


class Part(Body):
    type: Literal["text"]
    text: str


class Message(Body):
    role: str
    content: str | list[Part]
    annotations: Annotated[list[Any], Empty] = []  # of an answer that is sent back

    @property
    def text(self) -> str:
        parts = self.content
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)


class Format(Body):
    type: Literal["text"]


class Chat(Sampling):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    logprobs: Literal[False] = False
    top_logprobs: Literal[0] = 0
    response_format: Format = Format(type="text")
    modalities: list[Literal["text"]] = ["text"]
    tools: Annotated[list[Any], Empty] = []
    tool_choice: Literal["none", "auto"] = "none"
    parallel_tool_calls: Any = None

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
