"""The seeded bugs: known mistakes of such systems, planted on purpose, each with the check that must catch it.

A bug exists in the checker alone: it changes a function in the database of one run, a setting of its server, or a method in its
processes. The product has no line for it. An edit that no longer fits its function raises, instead of planting nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from psycopg.pq.abc import PGresult

from headrace.actions import ActionWorker, Queue
from headrace.consume import handler_calls
from headrace.core import DeliveryError, Invalid
from headrace.correlators import CorrelatorEngine, batches as correlator_batches
from headrace.db import AsyncConnection, Connection, Exchange, query
from headrace.lang.ecl.registers import RegisterProgram
from headrace.relays import Message
from headrace.relays.targets import postgres

_DEFINITION = """
select pg_get_functiondef(p.oid)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('headrace', 'headrace_internal') and p.proname = %s
"""
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def function_definition(conn: Connection, name: str) -> str:
    """The definition of headrace's function of this name, in either schema."""
    rows = conn.execute(_DEFINITION, (name,)).fetchall()
    if len(rows) != 1:
        raise Invalid(f"headrace has {len(rows)} functions {name!r}; the checker needs exactly one")
    return str(rows[0][0])


def replace_code(definition: str, old: str, new: str) -> str:
    """Replaces a piece of code in a function. Comment lines and white space do not matter. Raises Invalid if it is not there."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    text, count = pattern.subn(lambda _: new, _COMMENT.sub("", definition))
    if not count:
        raise Invalid(f"the function has changed: it does not contain {old[:60]!r} any more; adapt the seeded bug")
    return text


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

    async def step_once(self: CorrelatorEngine, watched: Any, *, limit: int | None = None) -> Any:
        result = await original_step(self, watched, limit=limit)
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


BUG = "cursor-before-batch"
ADVANCE = "headrace.advance("
GAP_S = 2.0
"""Between the two transactions, so that a kill falls into it."""


class _WithoutAdvance:
    """A connection that skips the statement which advances cursors."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def execute(self, text: Any, *args: Any) -> object:
        return None if ADVANCE in str(text) else self._conn.execute(text, *args)

    def __getattr__(self, name: str) -> object:
        return getattr(self._conn, name)


def plant_in_pipeline(names: Sequence[str]) -> None:
    """Plants the bug in this process if it is among the names."""
    if BUG not in names:
        return
    from headrace.spark.pipeline import TopicPipeline

    original = TopicPipeline._commit

    def commit(self: TopicPipeline, parts: Sequence[Any], *args: Any) -> Any:
        conn = self._conn
        for part in parts:
            conn.execute(f"select {ADVANCE}%s, -1, %s)", (part.snapshot.consumer_id, part.upto))
        time.sleep(GAP_S)
        self._conn = _WithoutAdvance(conn)  # type: ignore[assignment]
        # The pipeline must not notice that its cursors have already moved.
        self._lock_cursors = list  # type: ignore[method-assign, assignment]
        try:
            return original(self, parts, *args)
        finally:
            self._conn = conn
            del self._lock_cursors

    TopicPipeline._commit = commit  # type: ignore[method-assign, assignment]


@dataclass(frozen=True)
class Edit:
    """A change in a function of the database. `old` is code; white space and comment lines in the function do not matter."""

    function: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A bug and the check that must catch it."""

    name: str
    what: str
    caught_by: str
    edits: tuple[Edit, ...] = ()
    setup: str | None = None
    """A query of prove that runs before the edits."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the server."""
    pause_s: float = 0.0
    """How long handlers of paint take, so that a fault can interrupt one."""
    spark: bool = False
    """It needs a pipeline."""


_SERIAL_CURSOR = Edit(
    "sequence_topic",
    "with moved as ( delete from headrace_internal.outbox o where o.topic_id = p_topic.topic_id and",
    """perform headrace_prove.move_serial(p_topic.topic_id, v_bound);
        with moved as (
            delete from headrace_internal.outbox o
            using headrace_prove.serial s
            where s.topic_id = o.topic_id and o.id > s.before and o.id <= s.upto and o.topic_id = p_topic.topic_id and""",
)
_NO_FENCE = (
    Edit("ack_actions", "and q.read_ct = h.attempt", ""),
    Edit("ack_actions", "if v_done < cardinality(p_msg_ids) then", "if false then"),
)
_LOOSE_SCHEDULE = (
    Edit("claim_schedule", "for no key update of s skip locked", ""),
    Edit(
        "run_schedule",
        "where s.schedule_id = p_schedule_id for no key update;",
        "where s.schedule_id = p_schedule_id;",
    ),
    Edit("run_schedule", "on conflict on constraint schedule_tick_once do nothing", ""),
    Edit(
        "run_schedule",
        """delete from headrace_internal.schedule_due d
            where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()
            returning d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed""",
        """select d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed
            from headrace_internal.schedule_due d where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()""",
    ),
    Edit(
        "run_schedule",
        "perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);",
        """perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);
        perform headrace_prove.wait_for_other_node(v_tick_at);
        delete from headrace_internal.schedule_due d where d.schedule_id = p_schedule_id and d.tick_at = v_tick_at;""",
    ),
)
_ALL = (
    Bug(
        "serial-cursor",
        "the sequencer remembers the newest serial id it has read, and looks only for greater ones",
        "acknowledged-is-logged",
        edits=(_SERIAL_CURSOR,),
        setup="prove/bug_serial_cursor",
    ),
    Bug(
        "lost-headers",
        "the sequencer drops the headers of an event",
        "events-as-sent",
        edits=(
            Edit(
                "sequence_topic",
                "n.event_id, n.type, n.key, n.payload, n.headers,",
                "n.event_id, n.type, n.key, n.payload, '{}',",
            ),
        ),
    ),
    Bug(
        "late-emitted-at",
        "an event gets the time at which it is sequenced, not that at which it was published",
        "events-as-sent",
        edits=(
            Edit(
                "sequence_topic",
                "select n.position, n.appended_at, n.emitted_at,",
                "select n.position, n.appended_at, n.appended_at,",
            ),
        ),
    ),
    Bug(
        "newest-first",
        "of the actions of a key, the one sent last is claimed first",
        "ordered-by-key",
        edits=(
            Edit("claim_ordered_actions", "and e.msg_id < f.msg_id and e.ctid not in (select d.row_id from due d)", "and false"),
            Edit("claim_ordered_actions", "order by f.msg_id limit $2", "order by f.msg_id desc limit 1"),
        ),
    ),
    Bug(
        "forgotten-key",
        "an action is sent again although its unique key is in the queue",
        "unique-once",
        edits=(Edit("claim_unique_key", "if v_is_held or v_holder.unique_until > headrace.clock() then", "if false then"),),
    ),
    Bug(
        "no-delay",
        "an action is due when it is sent",
        "not-before-its-time",
        edits=(Edit("send_action", "headrace.clock() + coalesce(p_delay, interval '0')", "headrace.clock()"),),
    ),
    Bug(
        "no-pause",
        "actions are claimed whether they are paused or not",
        "nothing-starts-paused",
        edits=(Edit("unpaused_actions", "return array(", "return p_actions; return array("),),
    ),
    Bug(
        "double-redrive",
        "a redrive sends a dead letter twice",
        "redriven-once",
        edits=(
            Edit(
                "redrive_actions",
                "perform headrace.send_actions(v_namespace, v_actions);",
                "perform headrace.send_actions(v_namespace, v_actions || v_actions);",
            ),
        ),
    ),
    Bug("interrupted-is-done", "a handler that raises BaseException counts as one that has returned", "redriven-once"),
    Bug("ack-before-commit", "an action is deleted from the queue before its handler's transaction", "effects-once", pause_s=0.1),
    Bug(
        "local-lease",
        "a node judges leases by its own clock, which is a minute ahead",
        "one-holder",
        setup="prove/bug_local_lease",
    ),
    Bug("no-fence", "an ack does not check whether the lease is still held", "effects-once", edits=_NO_FENCE),
    Bug("first-capture", "a correlator keeps what it has captured first", "outputs-match-replay"),
    Bug(
        "state-after-output",
        "a correlator's state is saved in a transaction after its outputs, which may fail",
        "outputs-match-replay",
    ),
    Bug(
        "loose-schedule",
        "nothing keeps two nodes from firing the same tick",
        "ticks-once",
        edits=_LOOSE_SCHEDULE,
        setup="prove/bug_loose_schedule",
    ),
    Bug(
        "async-commit",
        "commits are acknowledged before they are on disk",
        "acknowledged-is-logged",
        settings={"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "100000"},
    ),
    Bug(
        "no-ledger",
        "the sink does not record which batches it has written",
        "sink-writes-once",
        edits=(Edit("commit_spark_batch", "v_fresh := found;", "v_fresh := true;"),),
    ),
    Bug(
        "half-erasure",
        "an erasure leaves the states of correlators",
        "erased-is-gone",
        edits=(
            Edit(
                "erase_correlations",
                "delete from headrace_internal.correlator_instance i where",
                "delete from headrace_internal.correlator_instance i where false and",
            ),
        ),
    ),
    Bug("no-relay-ledger", "a relay's target does not know what was delivered", "consumed-once"),
    Bug(
        "cursor-before-batch",
        "a pipeline advances its cursors in one transaction and writes the batch in the next",
        "firings-match-rules",
        spark=True,
    ),
)
BUGS = {bug.name: bug for bug in _ALL}


def find_bugs(names: Sequence[str]) -> list[Bug]:
    if unknown := [name for name in names if name not in BUGS]:
        raise Invalid(f"there is no seeded bug {', '.join(unknown)}; known: {', '.join(BUGS)}")
    return [BUGS[name] for name in names]


def plant_in_node(names: Sequence[str], node: str) -> None:
    """Plants the bugs of a node in this process."""
    for bug in find_bugs(names):
        if plant := NODE_BUGS.get(bug.name):
            plant(node)


def plant_in_database(conn: Connection, names: Sequence[str]) -> None:
    """Plants the bugs of the database in the database of this run."""
    for bug in find_bugs(names):
        if bug.setup:
            conn.execute(query(bug.setup))
        for edit in bug.edits:
            edit_function(conn, edit)
        if bug.pause_s:
            conn.execute(query("prove/set_pause"), {"name": "paint", "pause_s": bug.pause_s})


def edit_function(conn: Connection, edit: Edit) -> None:
    """Changes a function in the database."""
    conn.execute(replace_code(function_definition(conn, edit.function), edit.old, edit.new))


def server_settings(names: Sequence[str]) -> dict[str, str]:
    """The settings of the server that belong to the bugs."""
    return {name: value for bug in find_bugs(names) for name, value in bug.settings.items()}
