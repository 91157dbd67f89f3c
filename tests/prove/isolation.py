"""An isolation tester: runs the statements of real sessions in every possible order.

A statement that waits for a lock keeps waiting while the other sessions continue. An order in which its session would have to
continue before it gets the lock is impossible, and skipped. PostgreSQL says which session waits for a lock, so the tester does
not depend on time.

`begin` takes neither a snapshot nor a lock: put it into one step with the statement that follows, since orders that differ only in
its place are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError as NotDone
from dataclasses import dataclass, field

import psycopg

from headrace.db import Connection

Step = Callable[[Connection], object]
POLL_S = 0.01
TIMEOUT_S = 20.0


def orders(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every order of the steps of the sessions; `counts` are their numbers of steps."""
    if not any(counts):
        yield ()
        return
    for session, count in enumerate(counts):
        if count:
            rest = [other - (index == session) for index, other in enumerate(counts)]
            for tail in orders(rest):
                yield (session, *tail)


@dataclass
class Sessions:
    """Real sessions on one database, each with a thread."""

    dsn: str
    count: int
    conns: list[Connection] = field(default_factory=list)
    threads: list[ThreadPoolExecutor] = field(default_factory=list)
    waits: int = 0
    """How many steps had to wait for a lock."""

    def __enter__(self) -> Sessions:
        self._observer: Connection = psycopg.connect(self.dsn, autocommit=True)
        for _ in range(self.count):
            self.conns.append(psycopg.connect(self.dsn, autocommit=True))
            self.threads.append(ThreadPoolExecutor(1))
        return self

    def __exit__(self, *_: object) -> None:
        self._observer.close()
        for conn, thread in zip(self.conns, self.threads, strict=True):
            conn.cancel()
            thread.shutdown()
            conn.close()

    def run(
        self, scripts: Sequence[Sequence[Step]], order: Sequence[int], between: Callable[[], None]
    ) -> list[list[object]] | None:
        """Runs one order and returns the results of the steps; None if the order is impossible. `between` runs after each."""
        results: list[list[object]] = [[] for _ in scripts]
        waiting: dict[int, Future[object]] = {}
        possible = True
        for session in order:
            if session in waiting:
                if not self._is_done(session, waiting[session]):
                    possible = False
                    break
                results[session].append(waiting.pop(session).result())
            step = scripts[session][len(results[session])]
            running = self.threads[session].submit(step, self.conns[session])
            if self._is_done(session, running):
                results[session].append(running.result())
            else:
                self.waits += 1
                waiting[session] = running
            between()
        self._finish(scripts, results, waiting)
        return results if possible else None

    def _is_done(self, session: int, step: Future[object]) -> bool:
        """Waits until the step has ended (True), or waits for a lock of another session (False)."""
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until:
            try:
                step.result(POLL_S)
            except NotDone:
                blocking = self._observer.execute("select pg_blocking_pids(%s)", (self.conns[session].info.backend_pid,))
                if blocking.fetchone() != ([],):
                    return False
            else:
                return True
        raise AssertionError("a step neither ends nor waits for a lock")

    def _finish(self, scripts: Sequence[Sequence[Step]], results: list[list[object]], waiting: dict[int, Future[object]]) -> None:
        """Runs every session to its end, in any possible order, so that the next order finds no open transaction."""
        until = time.monotonic() + TIMEOUT_S
        while any(len(done) < len(script) for done, script in zip(results, scripts, strict=True)):
            assert time.monotonic() < until, "the sessions wait for each other"
            for session, script in enumerate(scripts):
                if len(results[session]) == len(script):
                    continue
                if session not in waiting:
                    waiting[session] = self.threads[session].submit(script[len(results[session])], self.conns[session])
                if self._is_done(session, waiting[session]):
                    results[session].append(waiting.pop(session).result())
