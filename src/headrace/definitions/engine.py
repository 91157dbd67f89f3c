"""The engine of one kind of definition on a node: compiles pending versions and runs the active ones, each in a loop of its own.

Owns: which loops run, and when they rest. Promises: a definition, written by whatever means, is compiled at once and has a loop
within a second; a loop never sleeps through a notification; the loop of a dropped definition ends; a definition that fails, to
compile or to run, is recorded and tried again with growing pauses, and the others go on; namespaces take turns, to compile and to
run, so that many or slow definitions of one delay another by one turn at most."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import itemgetter
from typing import Generic, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg.rows import class_row

from headrace.core import NamespaceTurns
from headrace.db import (
    AsyncConnection,
    Loop,
    Pool,
    StopSignal,
    Subscription,
    Unit,
    clear_failure,
    error_line,
    is_transient,
    is_unreachable,
    query,
    record_failure,
)
from headrace.definitions.pass_members import PassMembers, PassResult

logger = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_S, REST_S, COMPILER_REST_S = 1.0, 10.0, 20.0
"""Longest wait without a notification, after recent work and later: one may be lost with its connection, and retries fall due. Of the
engine: its loops wait for ever, and one statement finds those that have something to do."""
WATCH_S = 30.0
"""How often the list of active definitions is read, if none was written."""

ROUNDS_S = 0.1
"""After this time the compiler looks again at what is pending, at the end of a round."""
LOCK_MS, LONG_LOCK_MS = 100, 2000
"""A definition whose locks take longer than the first is compiled beside the others, and waits for each as long as the second: a role may
hold those of its own definitions, and a running batch does."""
LONG_LOOK_S = 0.25
"""How often it looks at what is pending while something that takes long is compiled."""

Pending: TypeAlias = tuple[int, str, str]
"""What is to be compiled: id, namespace and name."""


class TooLong(Exception):
    """Something takes longer than others in the line can be made to wait. `work`, if it is known, is what takes long: once it was done
    beside the line, the next attempt is short. Otherwise another transaction holds a lock."""

    def __init__(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.work = work


def rounds_by_namespace(waiting: Iterable[T], namespace_of: Callable[[T], str]) -> list[list[T]]:
    """What waits, in rounds: the first has the first of each namespace, the second the second of those that have more, and so on."""
    rounds: list[list[T]] = []
    counts: Counter[str] = Counter()
    for item in waiting:
        number = counts[namespace_of(item)]
        counts[namespace_of(item)] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(item)
    return rounds


async def limit_lock_waits(conn: AsyncConnection, lock_ms: int) -> None:
    """The rest of the transaction waits for no lock longer than that."""
    await conn.execute("select set_config('lock_timeout', %s, true)", (f"{lock_ms}ms",))


class InternalConsumer(Protocol):
    """A reserved consumer of the log. `str()` is its name in logs."""

    @property
    def unit(self) -> Unit:
        """What its failures are recorded under."""

    @property
    def namespace(self) -> str: ...

    @property
    def topic_id(self) -> int: ...

    @property
    def consumer_id(self) -> int: ...

    @property
    def batch(self) -> int:
        """How many events a batch has at most."""


Consumer = TypeVar("Consumer", bound=InternalConsumer)


class DoneBatch(Protocol):
    """What a batch of a reserved consumer did."""

    @property
    def events(self) -> int: ...

    @property
    def outputs(self) -> int:
        """How many rules fired, or tokens were pushed."""

    @property
    def has_more(self) -> bool:
        """Events may wait behind it."""


class DefinitionEngine(ABC, Generic[Consumer]):
    """Compiles one kind of definition and runs the active ones until `stop` is set."""

    noun: str
    consumer_type: type[Consumer]
    watched_query: str
    """The name of the query that lists the consumers of all active definitions."""
    pending_query: str
    """The name of the query that lists what is to be compiled: id, namespace and name."""

    def __init__(
        self, pool: Pool, written: Subscription, appended: Subscription, stop: StopSignal, *, at_once: int | None = None
    ) -> None:
        """`at_once`: how many consumers run concurrently; by default as many as the pool has connections."""
        self._pool = pool
        self._turns = NamespaceTurns(at_once or pool.max_size)
        self._long_turns, self._lock_turns = NamespaceTurns(1), NamespaceTurns(1)
        self._appended = appended
        self._stop = stop
        self._active: dict[int, Consumer] = {}
        self._of_topic: dict[int, list[Consumer]] = {}
        """The same by topic."""
        self._members = PassMembers()
        self._loops: dict[int, Loop] = {}
        """Those of the consumers; one that was dropped ends after its turn."""
        compiler, due, paces = f"{self.noun} compiler", f"due {self.noun}s", ((IDLE_S, COMPILER_REST_S), (IDLE_S, REST_S))
        self._compiler = Loop(compiler, stop, step=self._compile, wake_up=written, pauses_s=paces[0], pool=pool)
        self._due = Loop(due, stop, step=self._wake_due, pauses_s=paces[1], is_poll=True, pool=pool)
        self._appends = Loop(f"{self.noun}s: notifications", stop, step=self._wake_appended, wake_up=appended)
        self._watch = Loop(f"{self.noun}s", stop, step=self._start_loops, pool=pool)
        self._late: set[Unit] = set()
        """Definitions whose last compilation met a transient error."""
        self.events = 0
        """How many events this engine has processed."""
        self.failures = 0
        """How many batches and compilations have failed."""

    @abstractmethod
    async def compile_pending(self, conn: AsyncConnection, pending_id: int, *, lock_ms: int) -> int:
        """Compiles what a row of the pending query names; returns how many versions it had. Waits for locks with `limit_lock_waits`;
        raises TooLong for long work, which must not hold a connection, and is called again after it."""

    @abstractmethod
    async def show_status(self, *, after_compiling: bool) -> None:
        """Shows the status of compiled versions in the rows that users see: after each round, and when nothing is pending."""

    async def compile_once(self) -> int:
        """Tries to compile everything that is pending, once; returns how many versions were compiled. What takes long is compiled beside
        the rest; namespaces take turns there, too."""
        compiled = 0
        set_aside: set[int] = set()
        long: dict[asyncio.Task[int], int] = {}
        try:
            while not self._stop.is_set():
                pending = [row for row in await self._pending() if row[0] not in set_aside]
                count, too_long = await self._compile_rounds(pending, set_aside)
                for row, error in too_long:
                    long[asyncio.create_task(self._compile_long(row, error))] = row[0]
                ended = [task for task in long if task.done()]
                for task in ended:
                    del long[task]
                    count += task.result()
                compiled += count
                if pending or ended:
                    await self.show_status(after_compiling=True)
                    self._compiler.reset_pace()
                    self._watch.wake()
                    self._wake_all()
                elif long:
                    await asyncio.wait(long, timeout=LONG_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                    # What was set aside may have been written again meanwhile.
                    set_aside = set(long.values())
                else:
                    await self.show_status(after_compiling=False)
                    break
        finally:
            for task in long:
                task.cancel()
            await asyncio.gather(*long, return_exceptions=True)
        return compiled

    async def _compile_rounds(self, pending: list[Pending], set_aside: set[int]) -> tuple[int, list[tuple[Pending, TooLong]]]:
        """Compiles in rounds of one definition per namespace, for a moment: what another namespace writes meanwhile must not wait for
        all the rest. Returns how many versions were compiled, and what takes too long for that."""
        compiled, too_long = 0, list[tuple[Pending, TooLong]]()
        started = time.monotonic()
        for round_ in rounds_by_namespace(pending, itemgetter(1)):
            for row in round_:
                try:
                    versions = await self._compile_unit(row, LOCK_MS)
                except TooLong as error:
                    versions = 0
                    too_long.append((row, error))
                compiled += versions
                # What was compiled may have been written again meanwhile, and is compiled in its turn.
                if not versions:
                    set_aside.add(row[0])
            if time.monotonic() - started > ROUNDS_S:
                break
        return compiled, too_long

    async def _compile_long(self, row: Pending, error: TooLong) -> int:
        while True:
            # Apart, because long work holds no connection, and may take a minute; waiting for a lock holds one, but not for long.
            async with (self._long_turns if error.work else self._lock_turns).turn(row[1]):
                if error.work:
                    await error.work()
                try:
                    return await self._compile_unit(row, LOCK_MS if error.work else LONG_LOCK_MS)
                except TooLong as again:
                    error = again

    async def _pending(self) -> list[Pending]:
        async with self._pool.connection() as conn:
            return await (await conn.execute(query(self.pending_query))).fetchall()

    async def _compile_unit(self, row: Pending, lock_ms: int) -> int:
        """Compiles one definition; returns how many versions it had. If it fails, that is recorded, and it pauses."""
        pending_id, namespace, name = row
        unit = Unit(f"{self.noun} compilation", namespace, name)
        try:
            async with self._pool.connection() as conn:
                compiled = await self.compile_pending(conn, pending_id, lock_ms=lock_ms)
        except TooLong:
            raise
        except Exception as error:
            if is_unreachable(error):
                raise
            if isinstance(error, psycopg.errors.LockNotAvailable) and lock_ms < LONG_LOCK_MS:
                raise TooLong() from error
            if is_transient(error) and unit not in self._late:
                # A lock that another transaction holds, most of the time.
                self._late.add(unit)
                return 0
            self.failures += 1
            logger.error(
                "%s failed: %s; it will be tried again", unit, error_line(error), exc_info=not isinstance(error, psycopg.Error)
            )
            await record_failure(self._pool, unit, error)
            return 0
        self._late.discard(unit)
        await clear_failure(self._pool, unit)
        return compiled

    @abstractmethod
    async def turn(self, consumer: Consumer) -> float:
        """Does what is due; returns for how many seconds the consumer may rest: 0 while there may be more to do, infinity until it is
        woken."""

    async def watched(self) -> list[Consumer]:
        """The consumers of all active definitions."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(self.consumer_type)) as cursor:
            return await (await cursor.execute(query(self.watched_query))).fetchall()

    @asynccontextmanager
    async def _record_failures(self, conn: AsyncConnection, consumer: Consumer) -> AsyncIterator[None]:
        """A batch that fails in here is tried again, event by event and with growing pauses; other consumers go on.

        Enter it outside of the batch's transaction. A transient error passes: the loop tries again."""
        try:
            yield
        except psycopg.Error as error:
            if is_transient(error):
                raise
            self.failures += 1
            self._members.hold(consumer.consumer_id)
            batch = {"topic_id": consumer.topic_id, "consumer_id": consumer.consumer_id, "max": consumer.batch}
            await conn.execute(query("definitions/fail"), batch | {"error": str(error)})
            logger.error("%s failed: %s; the batch will be tried again", consumer, error)

    @property
    def appended(self) -> Subscription:
        """What wakes its consumers for new events. A sequencer of this node tells it by `take_step` instead."""
        return self._appended

    @property
    def pass_places(self) -> Sequence[tuple[int, int]]:
        """Which consumers the next step of the sequencer may let work on its events: topic, and number within it."""
        return self._members.places

    def take_step(self, topic_id: int, events: int, results: Mapping[int, PassResult], *, append_s: float) -> None:
        """A step of this node's sequencer has appended events to a topic: wakes the consumers that have not worked on them in it. `append_s`:
        how long it took, without them."""
        self._members.take_step(append_s)
        for consumer in self._of_topic.get(topic_id, ()):
            number = self.pass_number(consumer)
            result = None if number is None else results.get(number)
            if result is not None and result.outputs is not None:
                self._members.take_pass(consumer.consumer_id, result.work_s)
                self.count_batch(consumer, events, result.outputs)
                continue
            if result is None:
                self._members.leave(consumer.consumer_id)
            else:
                self._members.hold(consumer.consumer_id)
            if (loop := self._loops.get(consumer.consumer_id)) is not None:
                self._due.wake()
                loop.wake()

    def leave_pass(self) -> None:
        """A step of the sequencer has failed: the next ones append alone, until consumers have had a batch of their own."""
        self._members.leave_all()

    @abstractmethod
    def pass_number(self, consumer: Consumer) -> int | None:
        """By which number a step of the sequencer knows the consumer within its topic; None if it cannot work there."""

    @abstractmethod
    def count_batch(self, consumer: Consumer, events: int, outputs: int) -> None:
        """Counts what was done, in a batch of its own or in the pass."""

    def take_batch(self, consumer: Consumer, batch: DoneBatch, work_s: float) -> None:
        """A batch of a consumer is committed."""
        self.count_batch(consumer, batch.events, batch.outputs)
        number = self.pass_number(consumer)
        if batch.has_more or number is None:
            self._members.leave(consumer.consumer_id)
        elif batch.events:
            self._members.take_batch(consumer.consumer_id, (consumer.topic_id, number), events=batch.events, work_s=work_s)

    async def run(self) -> None:
        self._loops = {}
        async with asyncio.TaskGroup() as self._group:
            for loop in (self._compiler, self._appends, self._due, self._watch):
                self._group.create_task(loop.run())

    async def _compile(self) -> float | None:
        if self._compiler.is_notified:
            # Another node may have compiled it.
            self._watch.wake()
        return 0 if await self.compile_once() else None

    async def _wake_appended(self) -> float:
        """Wakes the consumers of the topics that a notification names."""
        if self._appends.is_notified:
            self._due.wake()
            names = self._appended.take_names()
            if names is None:
                self._wake_all()
            else:
                self._wake({topic_id for topic_id in self._of_topic if str(topic_id) in names}, ())
        return math.inf

    async def _wake_due(self) -> None:
        """Wakes the consumers that may have something to do without a notification, by one statement for all of them."""
        due = await self._find_due()
        # What follows its topic in the pass is behind only if it is named itself.
        grown = {topic_id for topic_id, consumer_id in due if consumer_id is None}
        behind = {
            consumer.consumer_id
            for topic_id in grown
            for consumer in self._of_topic.get(topic_id, ())
            if not self._members.has(consumer.consumer_id)
        }
        if self._wake((), behind | {consumer_id for _, consumer_id in due if consumer_id is not None}):
            self._due.reset_pace()

    async def _find_due(self) -> list[tuple[int, int | None]]:
        async with self._pool.connection() as conn:
            return await (await conn.execute("select topic_id, consumer_id from headrace_internal.find_due()")).fetchall()

    def _wake(self, topic_ids: Container[int], consumer_ids: Container[int | None]) -> bool:
        """Wakes these consumers, if they are ours, and those of these topics; returns whether there were any."""
        woken = [
            consumer_id
            for consumer_id, consumer in self._active.items()
            if consumer_id in self._loops and (consumer.topic_id in topic_ids or consumer_id in consumer_ids)
        ]
        for consumer_id in woken:
            self._loops[consumer_id].wake()
        return bool(woken)

    def _wake_all(self) -> None:
        for loop in self._loops.values():
            loop.wake()

    async def _start_loops(self) -> float:
        """Finds the active consumers and gives each a loop of its own."""
        await self._read_active()
        for consumer_id in self._loops.keys() - self._active.keys():
            # Dropped: its loop ends.
            self._loops[consumer_id].wake()
        for consumer_id in self._active.keys() - self._loops.keys():
            self._group.create_task(self._run_consumer(consumer_id))
        return WATCH_S

    async def _read_active(self) -> None:
        self._active = {consumer.consumer_id: consumer for consumer in await self.watched()}
        self._of_topic = {}
        for consumer in self._active.values():
            self._of_topic.setdefault(consumer.topic_id, []).append(consumer)
        self._members.keep(self._active.keys())

    async def _run_consumer(self, consumer_id: int) -> None:
        first = self._active[consumer_id]
        loop = self._loops[consumer_id] = Loop(
            str(first),
            self._stop,
            step=partial(self._take_turn, consumer_id),
            pool=self._pool,
            unit=first.unit,
            is_wanted=lambda: consumer_id in self._active,
        )
        await loop.run()
        del self._loops[consumer_id]

    async def _take_turn(self, consumer_id: int) -> float:
        if (consumer := self._active.get(consumer_id)) is None:
            return 0
        async with self._turns.turn(consumer.namespace):
            return await self.turn(consumer)
