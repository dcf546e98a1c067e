"""Bodies of requests have a limit: more is read by no route."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20


class LimitedBodies:
    """An application whose callers get status 413 for a long body, announced or not."""

    def __init__(self, app: ASGIApp, most: int = MOST_BYTES) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                raise HTTPException(413, f"the body has more than {self.most} bytes")
            return message

        await self.app(scope, limited, send)
