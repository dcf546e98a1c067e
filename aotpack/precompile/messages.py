"""The protocol between parent and compiling process: one JSON line each way."""

import base64
import json
from dataclasses import asdict

from aotpack.precompile.request import Request
from aotpack.stages import Binary


def write_request(request: Request) -> str:
    """A request as one line."""
    return json.dumps(request.as_text())


def read_request(line: str) -> Request:
    """Read what ``write_request`` wrote."""
    return Request.parse(json.loads(line))


def write_answer(answer: Binary | str) -> str:
    """A binary, or the compiler's error, as one line."""
    if isinstance(answer, str):
        return json.dumps({"error": answer})
    code = base64.b64encode(answer.code).decode()
    return json.dumps({"binary": asdict(answer) | {"code": code}})


def read_answer(line: str) -> Binary | str:
    """Read what ``write_answer`` wrote."""
    content = json.loads(line)
    if "error" in content:
        return str(content["error"])
    facts = content["binary"]
    return Binary(**facts | {"code": base64.b64decode(facts["code"])})
