"""The receiver of webhooks as a process: `python -m … PORT FILE VARIABLE`. A request with a valid signature is a line in the file, written
by one call before the answer, so that a kill loses no line that was answered for."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import msgspec
import uvicorn
from standardwebhooks import Webhook, WebhookVerificationError

from headrace.prove.evidence import RelayedEvent


class Receiver:
    """An ASGI application."""

    def __init__(self, file: str, secret: str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._webhook = Webhook(secret)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, is_complete = b"", False
        while not is_complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            is_complete = not message.get("more_body", False)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        status = self._accept(body, headers)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def _accept(self, body: bytes, headers: dict[str, str]) -> int:
        try:
            fields = self._webhook.verify(body, headers)
        except WebhookVerificationError:
            return 401
        if fields["id"] != headers["webhook-id"]:
            return 400
        event = RelayedEvent(fields["partition"], fields["position"], fields["id"], time.time())
        os.write(self._file, msgspec.json.encode(event) + b"\n")
        return 204


def main() -> None:
    port, file, variable = sys.argv[1:]
    uvicorn.run(
        Receiver(file, os.environ[variable]),
        host="127.0.0.1",
        port=int(port),
        lifespan="off",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
