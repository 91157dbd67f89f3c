"""Failpoints: places at which a node dies, before or after a statement of a loop, at its n-th time.

Owns: their names. They exist in the checker's processes alone: a node that it starts with one has psycopg's execute wrapped;
the product has no line for them, and so no cost. Steps inside the database's functions: see _step.py."""

from __future__ import annotations

import os
import signal
from typing import Any

import psycopg

STATEMENTS = {
    "sequence": "headrace.sequence(",
    "trim-outbox": "headrace_internal.trim_outbox(",
    "claim": "headrace.claim(",
    "advance": "headrace.advance(",
    "fail": "headrace.fail(",
    "react": "headrace_internal.react(",
    "correlate": "headrace_internal.correlate(",
    "claim-correlator": "headrace_internal.claim_correlator(",
    "write-instances": "headrace_internal.write_instances(",
    "deliver": "headrace_internal.deliver_correlations(",
    "settle-time": "headrace_internal.settle_time(",
    "claim-action": "read_ct = c.read_ct + 1",
    "ack": "headrace.ack_actions(",
    "fail-action": "headrace.fail_action(",
    "effect": "headrace_prove.effect",
    "consumed": "headrace_prove.consumed",
    "claim-schedule": "headrace_internal.claim_schedule(",
    "run-schedule": "headrace.run_schedule(",
}
NAMES = tuple(f"{side}:{name}" for name in STATEMENTS for side in ("before", "after"))


def arm(name: str, hit: int) -> None:
    """From now on this process dies at the n-th time it comes to the failpoint."""
    side, _, statement = name.partition(":")
    wanted = STATEMENTS[statement]
    left = hit
    plain = psycopg.AsyncCursor.execute

    def come() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def execute(self: psycopg.AsyncCursor[Any], query: Any, *given: Any, **options: Any) -> psycopg.AsyncCursor[Any]:
        here = wanted in (query if isinstance(query, str) else _text(query, self))
        if here and side == "before":
            come()
        result = await plain(self, query, *given, **options)
        if here and side == "after":
            come()
        return result

    psycopg.AsyncCursor.execute = execute  # type: ignore[method-assign, assignment]


def _text(query: Any, cursor: psycopg.AsyncCursor[Any]) -> str:
    return query.as_string(cursor) if hasattr(query, "as_string") else bytes(query).decode()
