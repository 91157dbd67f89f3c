"""Seeded bugs of a node: methods replaced in the processes of a run, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.actions import ActionWorker, Queue
from headrace.actions import queue as queue
from headrace.correlators import CorrelatorEngine
from headrace.correlators import batches as correlate
from headrace.db import AsyncConnection

AHEAD = "headrace.clock() + interval '1 minute'"


def _ack_before_commit(_node: str) -> None:
    plain_ack, plain_handle = Queue.ack, ActionWorker._handle

    async def handle(self: ActionWorker, claims: Sequence[Any]) -> None:
        async with self._queue._leases.connection() as own:
            await plain_ack(self._queue, own, claims, [0.0] * len(claims))
        await plain_handle(self, claims)

    async def ack(self: Queue, conn: AsyncConnection, claims: Sequence[Any], durations_s: Sequence[float]) -> None:
        return None

    ActionWorker._handle = handle  # type: ignore[method-assign]
    Queue.ack = ack  # type: ignore[method-assign]


def _local_lease(node: str) -> None:
    if not node.endswith("-2"):
        return
    names = vars(queue)
    plain = names["query"]

    def query(name: str) -> Any:
        text = plain(name)
        return text.replace("q.vt <= headrace.clock()", f"q.vt <= {AHEAD}") if name == "actions/claim_retried" else text

    names["query"] = query


def _state_after_output(_node: str) -> None:
    names = vars(correlate)
    plain_write, plain_step = names["write_instances_async"], CorrelatorEngine.step_once
    waiting: dict[int, Sequence[Any]] = {}

    async def write_later(_conn: AsyncConnection, correlator_id: int, instances: Sequence[Any]) -> None:
        waiting[correlator_id] = instances

    async def step_once(self: CorrelatorEngine, watched: Any, *, most: int | None = None) -> Any:
        done = await plain_step(self, watched, most=most)
        if instances := waiting.pop(watched.correlator_id, None):
            async with self._pool.connection() as conn:
                await plain_write(conn, watched.correlator_id, instances)
        return done

    names["write_instances_async"] = write_later
    CorrelatorEngine.step_once = step_once  # type: ignore[method-assign]


PLANTS: dict[str, Callable[[str], None]] = {
    "ack-before-commit": _ack_before_commit,
    "local-lease": _local_lease,
    "state-after-output": _state_after_output,
}
