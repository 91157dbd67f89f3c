"""Failpoints of a node: statements of its loops before or after which the node's process kills itself, at the n-th time.

They exist in the checker's processes alone: a node that it starts with a failpoint has psycopg's `execute` and the exchanges of
`headrace.db` wrapped; the product has no line for them. Failpoints inside the database's functions are in `headrace.prove.faults.sql_failpoint`."""

from __future__ import annotations

import os
import signal
from typing import Any

import psycopg
from psycopg.pq.abc import PGresult

from headrace.db import Exchange

STATEMENTS = {
    "sequence": "headrace.sequence(",
    "trim-outbox": "headrace_internal.trim_outbox(",
    "claim": "headrace.claim_events(",
    "advance": "headrace.advance",
    "fail": "headrace.fail(",
    "react": "headrace_internal.react(",
    "correlate": "headrace_internal.correlate(",
    "claim-correlator": "headrace_internal.claim_correlator(",
    "write-instances": "headrace_internal.write_instances(",
    "deliver": "headrace_internal.deliver_correlations(",
    "settle-time": "headrace_internal.settle_time(",
    "claim-action": "headrace.claim_actions(",
    "ack": "headrace.ack_actions(",
    "fail-action": "headrace.fail_action(",
    "effect": "headrace_prove.effect",
    "consumed": "headrace_prove.consumed",
    "relay": '"headrace_prove"."headrace_relay"',
    "claim-schedule": "headrace_internal.claim_schedule(",
    "run-schedule": "headrace.run_schedule(",
}
NAMES = tuple(f"{side}:{name}" for name in STATEMENTS for side in ("before", "after"))


def arm(name: str, hit: int) -> None:
    """From now on this process dies when it reaches the failpoint for the n-th time."""
    side, _, statement = name.partition(":")
    text = STATEMENTS[statement]
    remaining = hit
    original = psycopg.AsyncCursor.execute

    def reach() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def execute(self: psycopg.AsyncCursor[Any], query: Any, *args: Any, **options: Any) -> psycopg.AsyncCursor[Any]:
        matches = text in statement_text(query, self)
        if matches and side == "before":
            reach()
        cursor = await original(self, query, *args, **options)
        if matches and side == "after":
            reach()
        return cursor

    psycopg.AsyncCursor.execute = execute  # type: ignore[method-assign, assignment]
    run_exchange = Exchange.run

    async def run(self: Exchange) -> list[PGresult]:
        matches = any(text in command for command, _ in self.commands)
        if matches and side == "before":
            reach()
        results = await run_exchange(self)
        # A commit in the same exchange has come after it.
        if matches and side == "after":
            reach()
        return results

    Exchange.run = run  # type: ignore[method-assign]


def statement_text(query: Any, cursor: psycopg.AsyncCursor[Any]) -> str:
    """A statement as text, whichever type psycopg got it in."""
    if isinstance(query, str):
        return query
    return query.as_string(cursor) if hasattr(query, "as_string") else bytes(query).decode()
