"""An isolation tester: steps real sessions through every order in which their statements may come.

A step that waits for another session's lock is left waiting while the others go on; its session goes on when it is through.
An order in which a session would have to go on before that is the same as another one, and passed over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field

import psycopg

from headrace.db import Connection

Step = Callable[[Connection], object]
BLOCKED_S = 0.15
"""A step that takes longer is taken to wait for a lock."""
FREE_S = 20.0


def orders(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every order of so many steps of each session."""
    if not any(counts):
        yield ()
        return
    for session, left in enumerate(counts):
        if left:
            rest = [count - (place == session) for place, count in enumerate(counts)]
            for tail in orders(rest):
                yield (session, *tail)


@dataclass
class Sessions:
    """Real sessions on one database."""

    dsn: str
    count: int
    conns: list[Connection] = field(default_factory=list)
    threads: list[ThreadPoolExecutor] = field(default_factory=list)
    waited: int = 0
    """How many steps had to wait for a lock."""

    def __enter__(self) -> Sessions:
        for _ in range(self.count):
            self.conns.append(psycopg.connect(self.dsn, autocommit=True))
            self.threads.append(ThreadPoolExecutor(1))
        return self

    def __exit__(self, *_: object) -> None:
        for conn, thread in zip(self.conns, self.threads, strict=True):
            conn.cancel()
            thread.shutdown()
            conn.close()

    def play(
        self, scripts: Sequence[Sequence[Step]], order: Sequence[int], between: Callable[[], None]
    ) -> list[list[object]] | None:
        """Plays one order and returns what the steps gave; None for an order that cannot be. `between` looks after every step."""
        given: list[list[object]] = [[] for _ in scripts]
        waiting: dict[int, Future[object]] = {}
        possible = True
        for session in order:
            if session in waiting:
                if not waiting[session].done():
                    possible = False
                    break
                given[session].append(waiting.pop(session).result())
            step = scripts[session][len(given[session])]
            running = self.threads[session].submit(step, self.conns[session])
            try:
                given[session].append(running.result(BLOCKED_S))
            except NotYet:
                self.waited += 1
                waiting[session] = running
            between()
        self._finish(scripts, given, waiting)
        return given if possible else None

    def _finish(self, scripts: Sequence[Sequence[Step]], given: list[list[object]], waiting: dict[int, Future[object]]) -> None:
        """Every session comes to its end, in whatever order is possible, so that the next order finds no open transaction."""
        until = time.monotonic() + FREE_S
        while any(len(done) < len(script) for done, script in zip(given, scripts, strict=True)):
            assert time.monotonic() < until, "sessions wait for each other for ever"
            for session, script in enumerate(scripts):
                if len(given[session]) == len(script):
                    continue
                if session not in waiting:
                    waiting[session] = self.threads[session].submit(script[len(given[session])], self.conns[session])
                try:
                    given[session].append(waiting[session].result(0.02))
                    del waiting[session]
                except NotYet:
                    continue
