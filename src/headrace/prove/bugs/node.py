"""Seeded bugs of a node: methods replaced in the processes of a run, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from psycopg.pq.abc import PGresult

from headrace.actions import ActionWorker, Queue
from headrace.consume import handler_calls
from headrace.core import DeliveryError
from headrace.correlators import CorrelatorEngine
from headrace.correlators import batches as correlator_batches
from headrace.db import AsyncConnection, Exchange
from headrace.lang.ecl.registers import RegisterProgram
from headrace.relays import Message
from headrace.relays.targets import postgres

CLAIM_RETRIED = "headrace.claim_retried_action("


def _ack_before_commit(_node: str) -> None:
    original_handle = ActionWorker._handle

    async def handle(self: ActionWorker, claims: Sequence[Any]) -> None:
        async with self._queue._leases.connection() as conn:
            await self._queue.ack(conn, claims, [0.0] * len(claims))
        await original_handle(self, claims)

    async def commit(self: Queue, conn: Any, claims: Sequence[Any], durations_s: Sequence[float]) -> None:
        await conn.commit()

    ActionWorker._handle = handle  # type: ignore[method-assign]
    Queue.ack_and_commit = commit  # type: ignore[method-assign]


def _local_lease(node: str) -> None:
    """`node-2` claims actions again before their lease has ended."""
    if not node.endswith("-2"):
        return
    original = Exchange.run

    async def run(self: Exchange) -> list[PGresult]:
        early: list[Any] = [
            (text.replace(CLAIM_RETRIED, "headrace.claim_retried_ahead("), values) for text, values in self.commands
        ]
        return await original(Exchange(self.conn, early))

    Exchange.run = run  # type: ignore[method-assign]


def _interrupted_is_done(_node: str) -> None:
    names = vars(handler_calls)
    original = names["_call"]

    async def call(*args: Any) -> float:
        try:
            return float(await original(*args))
        except names["HandlerInterrupted"]:
            return 0.0

    names["_call"] = call


def _state_after_output(_node: str) -> None:
    """Every third of the later transactions fails, as if the node had died before it."""
    names = vars(correlator_batches)
    original_write, original_step = names["write_instances_async"], CorrelatorEngine.step_once
    pending: dict[int, Sequence[Any]] = {}
    transactions = count(1)

    async def write_later(_conn: AsyncConnection, correlator_id: int, instances: Sequence[Any]) -> None:
        pending[correlator_id] = instances

    async def step_once(self: CorrelatorEngine, watched: Any, *, most: int | None = None) -> Any:
        result = await original_step(self, watched, most=most)
        if (instances := pending.pop(watched.correlator_id, None)) and next(transactions) % 3:
            async with self._pool.connection() as conn:
                await original_write(conn, watched.correlator_id, instances)
        return result

    names["write_instances_async"] = write_later
    CorrelatorEngine.step_once = step_once  # type: ignore[method-assign]


def _first_capture(_node: str) -> None:
    original = RegisterProgram.record

    def record(self: RegisterProgram, memory: Any, *args: Any) -> Any:
        return original(self, memory, *args) if memory == self.empty else memory

    RegisterProgram.record = record  # type: ignore[method-assign, assignment]


def _no_relay_ledger(_node: str) -> None:
    """Confirmations of a relay's target get lost, which does no harm by itself; but its ledger says that nothing was delivered."""
    original_deliver, original_statement = postgres.PostgresTarget.deliver, vars(postgres)["_statement"]
    deliveries = count(1)

    async def deliver(self: postgres.PostgresTarget, messages: Sequence[Message]) -> None:
        await original_deliver(self, messages)
        if next(deliveries) % 3 == 0:
            raise DeliveryError("the confirmation was lost")

    def statement(name: str, names: Any) -> Any:
        return "select 0" if name == "relays/targets/lock_ledger" else original_statement(name, names)

    postgres.PostgresTarget.deliver = deliver  # type: ignore[method-assign]
    vars(postgres)["_statement"] = statement


NODE_BUGS: dict[str, Callable[[str], None]] = {
    "ack-before-commit": _ack_before_commit,
    "first-capture": _first_capture,
    "interrupted-is-done": _interrupted_is_done,
    "local-lease": _local_lease,
    "no-relay-ledger": _no_relay_ledger,
    "state-after-output": _state_after_output,
}
