"""Webhook: a receiver that verifies the signature and writes a line for every request before it answers."""

from __future__ import annotations

import base64
import os
import sys
from importlib.util import find_spec
from typing import Any

import msgspec

from headrace.core import JSON, Invalid
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import TIMEOUT_S, ServerProcess

SECRET = "PROVE_WEBHOOK"
SECRET_VARIABLE = f"HEADRACE_SECRET_DEFAULT__{SECRET}"


class WebhookTarget(ServerProcess):
    """A receiver in a process of its own."""

    kind = relay_kind = "webhook"
    delivery = "at least once"

    @classmethod
    def require(cls) -> None:
        missing = [name for name in ("uvicorn", "httpx2", "standardwebhooks") if find_spec(name) is None]
        if missing:
            raise Invalid(f"the relay webhook needs {', '.join(missing)}; install: pip install 'headrace[http,relay]'")

    def command(self) -> list[str]:
        os.environ["HEADRACE_RELAY_NETWORKS"] = "127.0.0.1/32"
        os.environ.setdefault(SECRET_VARIABLE, "whsec_" + base64.b64encode(os.urandom(32)).decode())
        file = str(self.folder / "received.jsonl")
        return [sys.executable, "-m", "headrace.prove.relay_targets.webhook_receiver", str(self.port), file, SECRET_VARIABLE]

    def options(self) -> dict[str, JSON]:
        return {
            "url": f"http://127.0.0.1:{self.proxy.port}/",
            "secret": f"env:{SECRET}",
            "timeout_s": TIMEOUT_S,
        }

    def more_fields(self) -> dict[str, Any]:
        return {"format": "template", "mapping": {"id": "$.id", "partition": "$.partition", "position": "$.position"}}

    async def read(self) -> list[RelayedEvent]:
        lines = (self.folder / "received.jsonl").read_bytes().splitlines()
        return [msgspec.json.decode(line, type=RelayedEvent) for line in lines]
