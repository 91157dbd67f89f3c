"""The test kit: publish, run everything to idle, move the clock, look at what happened.

`Kit` works in a database of its own, where every step commits as on a node. `TransactionKit` works inside a transaction that the
caller has open and will roll back. Both have the same methods; what reads or writes a row is synchronous, also in an async test. What
happened is read from the same tables and views as the command line reads. `make_event` and `make_action` are for tests that call a
handler without any database."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

import msgspec
from psycopg import sql
from uuid_utils.compat import uuid7

from headrace import actions as action_queue
from headrace.actions import Action, DeadLetter, list_dead_letters
from headrace.core import JSON, Invalid, LoggedEvent, RawJSON, decode, encode, map_database_errors
from headrace.correlators import PastOutput
from headrace.db import Connection, Target, connect, fetch_rows, fetch_value, query
from headrace.log import outbox
from headrace.log.topics import read_log
from headrace.node import Headrace, run_loop
from headrace.testing.connections import OneConnectionPool, async_view, open_transaction, sync_view
from headrace.testing.steps import ApplicationSteps, RunCounts

if TYPE_CHECKING:
    from headrace.testing.connections import CallerConnection


def make_event(
    type: str = "event",
    payload: JSON = None,
    *,
    topic: str = "topic",
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    position: int = 1,
    partition: int = 0,
    id: UUID | None = None,
    emitted_at: datetime | None = None,
    appended_at: datetime | None = None,
    producer: str | None = None,
) -> LoggedEvent:
    """An event at a position of a topic's log. Its payload is what a handler would get: JSON, so that a tuple becomes a list."""
    emitted_at = emitted_at or datetime.now(UTC)
    return LoggedEvent(
        position=position,
        partition=partition,
        id=id or uuid7(),
        topic=topic,
        type=type,
        key=key,
        payload=decode(encode(payload)),
        headers=headers or {},
        emitted_at=emitted_at,
        appended_at=appended_at or emitted_at,
        producer=producer,
    )


def make_action(
    action: str = "action",
    payload: JSON = None,
    *,
    key: str | None = None,
    priority: int = 0,
    attempt: int = 1,
    id: UUID | None = None,
    namespace: str | None = None,
    event_type: str | None = None,
    emitted_at: datetime | None = None,
    producer: str | None = None,
    cause: Mapping[str, JSON] | None = None,
) -> Action:
    """An action as its handler gets it."""
    return Action(
        id=id or uuid7(),
        action=action,
        payload=decode(encode(payload)),
        key=key,
        priority=priority,
        namespace=namespace or "default",
        event_type=event_type,
        emitted_at=emitted_at or datetime.now(UTC),
        producer=producer,
        cause=cause or {},
        attempt=attempt,
    )


_decode = msgspec.json.Decoder(Action).decode


@dataclass(frozen=True)
class RuleFiring:
    """A rule that fired on an event, and the action it sent."""

    rule: str
    version: int
    topic: str
    position: int | None
    """None for an inline rule whose event is not sequenced yet."""
    event_id: UUID
    action: str
    action_id: UUID
    fired_at: datetime


@dataclass(frozen=True, kw_only=True)
class SentAction:
    """An action that was sent, and what became of it."""

    id: UUID
    action: str
    key: str | None
    payload: JSON
    """None for an action that was handled outside of the kit, for example by direct delivery: the queue keeps no payloads."""
    state: Literal["queued", "retrying", "done", "dead"]
    """`queued`: it waits, perhaps for its due time or for a handler; `retrying`: an attempt has failed."""
    attempts: int
    """Deliveries so far."""
    due_at: datetime | None = None
    error: str | None = None
    """The error that a dead letter was buried with."""
    cause: Mapping[str, JSON] | None = None


@dataclass(frozen=True)
class _Result:
    action_id: UUID
    action: str
    outcome: str
    attempts: int


def list_firings(conn: Connection, rule: str | None, namespace: str | None) -> list[RuleFiring]:
    return fetch_rows(conn, RuleFiring, query("testing/firings"), {"rule": rule, "namespace": namespace})


def list_sent_actions(conn: Connection, handled: Mapping[UUID, Action], namespace: str | None) -> list[SentAction]:
    """All actions of a namespace, in the order they were sent. `handled`: those whose payloads the kit has seen."""
    actions = [*_queued(conn, namespace), *_dead(conn, namespace)]
    known = {action.id for action in actions}
    for result in fetch_rows(conn, _Result, query("testing/results"), {"namespace": namespace}):
        if result.action_id in known or result.outcome != "done":
            continue
        action = handled.get(result.action_id) or Action(id=result.action_id, action=result.action)
        actions.append(_sent_action(action, "done", result.attempts))
    # Sort by id: a uuid v7 begins with the time.
    return sorted(actions, key=lambda action: action.id)


def _queued(conn: Connection, namespace: str | None) -> Iterator[SentAction]:
    queue = fetch_value(conn, "select 'q_' || headrace.queue_name(headrace.current_namespace(%s))", (namespace,))
    statement = sql.SQL("select q.read_ct, q.vt, q.message::text from pgmq.{} q order by q.msg_id").format(sql.Identifier(queue))
    with map_database_errors():
        rows = conn.execute(statement).fetchall()
    for attempts, due_at, message in rows:
        yield _sent_action(_decode(message), "retrying" if attempts else "queued", attempts, due_at=due_at)


def _sent_action(
    action: Action, state: Literal["queued", "retrying", "done"], attempts: int, *, due_at: datetime | None = None
) -> SentAction:
    return SentAction(
        id=action.id,
        action=action.action,
        key=action.key,
        payload=action.payload,
        state=state,
        attempts=attempts,
        due_at=due_at,
        cause=action.cause,
    )


def _dead(conn: Connection, namespace: str | None) -> Iterator[SentAction]:
    for letter in list_dead_letters(conn, kind="action", limit=None, namespace=namespace):
        if letter.original_id is not None:
            yield SentAction(
                id=letter.original_id,
                action=letter.name or "",
                key=letter.key,
                payload=letter.payload,
                state="dead",
                attempts=letter.attempts,
                error=letter.error,
            )


TIMEOUT_S = 30.0
LOG_MAX = 1_000_000
_CLOCK = """create or replace function headrace.clock() returns timestamptz language sql stable parallel safe as {}"""
_CLOCK_BODY = """select statement_timestamp() + interval {}
    + coalesce(nullif(current_setting('headrace.clock_shift', true), '')::interval, interval '0')"""


class BaseKit(ABC):
    """What both kits have."""

    def __init__(self, *, namespace: str | None) -> None:
        self.namespace = namespace
        self._handled: dict[UUID, Action] = {}

    @abstractmethod
    def _session(self) -> AbstractContextManager[Connection]:
        """The session of the test, by psycopg's sync interface."""

    @abstractmethod
    def _steps(self, app: Headrace) -> AbstractAsyncContextManager[ApplicationSteps]:
        """The steps of an application on the session of the test."""

    @abstractmethod
    def _shift_clock(self, conn: Connection, shift: timedelta) -> None:
        """Sets how far headrace's clock is ahead of the server's."""

    def publish(
        self,
        topic: str,
        type: str,
        payload: JSON | RawJSON = None,
        *,
        key: str | None = None,
        headers: Mapping[str, JSON] | None = None,
        id: UUID | None = None,
        emitted_at: datetime | None = None,
        producer: str | None = None,
    ) -> UUID:
        """Publishes one event and returns its id."""
        with self._session() as conn:
            return outbox.publish(
                conn,
                topic,
                type,
                payload,
                key=key,
                headers=headers,
                id=id,
                emitted_at=emitted_at,
                producer=producer,
                namespace=self.namespace,
            )

    def send_action(
        self,
        action: str,
        payload: JSON | RawJSON = None,
        *,
        key: str | None = None,
        priority: int = 0,
        delay: timedelta | None = None,
    ) -> UUID:
        """Sends an action and returns its id."""
        with self._session() as conn:
            return action_queue.send_action(
                conn, action, payload, key=key, priority=priority, delay=delay, namespace=self.namespace
            )

    async def register(self, app: Headrace) -> None:
        """Registers the application's consumers and the rules for its event types. `run_until_idle` does it as well; call it before
        the first event for a consumer that starts with the latest."""
        async with self._steps(app) as steps:
            await steps.register()

    def register_sync(self, app: Headrace) -> None:
        """Does the same as `register`, in a test that is not async."""
        _require_no_loop("register")
        run_loop(self.register(app))

    async def run_until_idle(self, app: Headrace, *, timeout_s: float = TIMEOUT_S) -> RunCounts:
        """Runs schedules, sequencer, rules, correlators, consumers and handlers until nothing is due; returns what was done.

        A failed handler is retried when the clock has been moved to its next attempt. Raises NotIdle after `timeout_s`."""
        async with self._steps(app) as steps:
            return await steps.run_until_idle(timeout_s)

    def run_until_idle_sync(self, app: Headrace, *, timeout_s: float = TIMEOUT_S) -> RunCounts:
        """Does the same as `run_until_idle`, in a test that is not async."""
        _require_no_loop("run_until_idle")
        return run_loop(self.run_until_idle(app, timeout_s=timeout_s))

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        """Moves headrace's clock forward and returns its time. The next `run_until_idle` fires what has become due."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if step < timedelta(0):
            raise Invalid(f"the clock can be moved forward only, not by {step}: the log's time never goes back")
        with self._session() as conn:
            shift = fetch_value(conn, "select headrace.clock() - statement_timestamp()")
            self._shift_clock(conn, shift + step)
        return self.now()

    def now(self) -> datetime:
        """The time of headrace's clock."""
        with self._session() as conn:
            now: datetime = fetch_value(conn, "select headrace.clock()")
            return now

    def events(self, topic: str, *, type: str | None = None) -> list[LoggedEvent]:
        """The events in a topic's log, in order; those that nobody has sequenced yet are not in it."""
        with self._session() as conn:
            events = read_log(conn, topic, limit=LOG_MAX, namespace=self.namespace)
        return [event for event in events if type in (None, event.type)]

    def firings(self, rule: str | None = None) -> list[RuleFiring]:
        """The firings of all rules, or of one, in order."""
        with self._session() as conn:
            return list_firings(conn, rule, self.namespace)

    def outputs(self, correlator: str | None = None) -> list[PastOutput]:
        """What all correlators, or one, have pushed, in order."""
        parameters = {"correlator": correlator, "key": None, "limit": None, "namespace": self.namespace}
        with self._session() as conn:
            return fetch_rows(conn, PastOutput, query("correlators/correlations"), parameters)[::-1]

    def actions(
        self, action: str | None = None, *, state: Literal["queued", "retrying", "done", "dead"] | None = None
    ) -> list[SentAction]:
        """The actions that were sent, by rules, correlators or programs, and what became of them; in the order they were sent."""
        with self._session() as conn:
            sent = list_sent_actions(conn, self._handled, self.namespace)
        return [one for one in sent if action in (None, one.action) and state in (None, one.state)]

    def dead_letters(self) -> list[DeadLetter]:
        """The open dead letters: actions, then events."""
        with self._session() as conn:
            return list_dead_letters(conn, limit=None, namespace=self.namespace)


class Kit(BaseKit):
    """The test kit on a database of its own: what it publishes is committed, and each step is a transaction, as on a node.

    The clock is moved for every session of the database, the application's too."""

    def __init__(self, database: Target | str, *, namespace: str | None = None) -> None:
        super().__init__(namespace=namespace)
        self.target = database if isinstance(database, Target) else Target("test", database)
        self._stack = ExitStack()
        self.conn = self._stack.enter_context(connect(self.target))
        """A connection in autocommit mode, for the test's own statements."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the kit's connection."""
        self._stack.close()

    @property
    def dsn(self) -> str:
        """The address of the database, for the application under test."""
        return self.target.dsn

    async def dispatch(self, conn: CallerConnection, app: Headrace, *, timeout_s: float = TIMEOUT_S) -> TransactionKit:
        """Handles what the open transaction of `conn` has published, inside that transaction, and returns a kit that shows it."""
        kit = TransactionKit(conn, namespace=self.namespace)
        await kit.run_until_idle(app, timeout_s=timeout_s)
        return kit

    def dispatch_sync(self, conn: CallerConnection, app: Headrace, *, timeout_s: float = TIMEOUT_S) -> TransactionKit:
        """Does the same as `dispatch`, in a test that is not async."""
        _require_no_loop("dispatch")
        return run_loop(self.dispatch(conn, app, timeout_s=timeout_s))

    def _session(self) -> AbstractContextManager[Connection]:
        return nullcontext(self.conn)

    @asynccontextmanager
    async def _steps(self, app: Headrace) -> AsyncIterator[ApplicationSteps]:
        with async_view(self.conn, in_transaction=False) as view:
            pool = OneConnectionPool.for_connection(view)
            steps = ApplicationSteps(app, self.conn, self.target, pool, self._handled, in_transaction=False)
            try:
                yield steps
            finally:
                await steps.close()

    def _shift_clock(self, conn: Connection, shift: timedelta) -> None:
        # The function itself, not the setting headrace.clock_shift: that would reach only sessions of the kit, and events that
        # the application publishes in its own would be older than the timers that have fired.
        body = sql.SQL(_CLOCK_BODY).format(sql.Literal(f"{shift.total_seconds()} seconds")).as_string(conn)
        conn.execute(sql.SQL(_CLOCK).format(sql.Literal(body)))


class TransactionKit(BaseKit):
    """The test kit inside a transaction of the caller, for tests whose transaction is rolled back at the end.

    Everything happens in that transaction, each step in a savepoint: the events get positions, rules and handlers run, and the
    rollback undoes it all. Nobody else sees any of it, and handlers that open connections of their own see nothing of it either.
    One such test at a time per database: the transaction holds the locks of its topics until it ends.

    `conn` is a connection of psycopg 3, sync or async, or SQLAlchemy's or Django's on top of one."""

    def __init__(self, conn: CallerConnection, *, namespace: str | None = None) -> None:
        super().__init__(namespace=namespace)
        self._owner: Any = conn
        open_transaction(conn)

    def _session(self) -> AbstractContextManager[Connection]:
        return sync_view(open_transaction(self._owner))

    @asynccontextmanager
    async def _steps(self, app: Headrace) -> AsyncIterator[ApplicationSteps]:
        flush = getattr(self._owner, "flush", None)
        if flush is not None and asyncio.iscoroutine(pending := flush()):
            await pending
        owner = open_transaction(self._owner)
        with sync_view(owner) as conn, async_view(owner, in_transaction=True) as view:
            async with view.transaction():
                target, pool = Target("test", conn.info.dsn), OneConnectionPool.for_connection(view)
                yield ApplicationSteps(app, conn, target, pool, self._handled, in_transaction=True)
        # The objects of an ORM session may have been changed by handlers.
        if hasattr(self._owner, "expire_all"):
            self._owner.expire_all()

    def _shift_clock(self, conn: Connection, shift: timedelta) -> None:
        # The base clock may be moved as well; the setting adds to it.
        statement = """select set_config('headrace.clock_shift',
            (%s::interval - (headrace.clock() - statement_timestamp())
                + coalesce(nullif(current_setting('headrace.clock_shift', true), '')::interval, interval '0'))::text, true)"""
        fetch_value(conn, statement, (shift,))


def _require_no_loop(method: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Invalid(f"this test is async; write: await kit.{method}(…)")
