"""Steps: what a function does on its caller's connection, written once for every driver, synchronous and asynchronous.

Such a function is a generator without I/O: it yields steps and is sent their results. `run_steps` and `run_steps_async` take them to
a connection of any known kind. What a driver raises is raised inside the generator, as an error of our tree where it has one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, LiteralString, NamedTuple, TypeAlias, TypeVar

from headrace.core import HeadraceError, map_error

Result = TypeVar("Result")
Rows: TypeAlias = list[tuple[Any, ...]]
Parameters: TypeAlias = Sequence[str | list[str] | None]
"""Every value travels as text and is cast in the statement, so that a driver's own codecs cannot change it."""


class Fetch(NamedTuple):
    """Runs a statement with %s in place of its parameters; the result is its rows."""

    statement: LiteralString
    parameters: Parameters


class Insert(NamedTuple):
    """Runs an INSERT; the result is True if it has inserted a row. It is False, and nothing is sent, if the connection does not tell how
    many rows there were."""

    statement: LiteralString
    parameters: Parameters


class Copy(NamedTuple):
    """Sends a COPY in binary format; the result is False, and nothing is sent, if the connection cannot COPY now."""

    schema: LiteralString
    table: LiteralString
    columns: Sequence[LiteralString]
    chunks: Iterator[bytes]

    @property
    def statement(self) -> LiteralString:
        return f"copy {self.schema}.{self.table} ({', '.join(self.columns)}) from stdin (format binary)"


class Block(NamedTuple):
    """Runs further steps in the caller's transaction, or in one of their own if none is open; the result is theirs. With
    `savepoint`, an error undoes them and leaves the caller's transaction usable."""

    steps: Steps[Any]
    savepoint: bool = False


Step: TypeAlias = Fetch | Insert | Copy | Block
Steps: TypeAlias = Generator[Step, Any, Result]


def fetch(statement: LiteralString, parameters: Parameters) -> Steps[Rows]:
    """The steps of a function that runs one statement."""
    rows: Rows = yield Fetch(statement, parameters)
    return rows


class Driver(ABC):
    """How steps are taken on one kind of connection."""

    @abstractmethod
    def run(self, conn: Any, steps: Steps[Any]) -> Any:
        """Takes all steps, and returns what the generator returns; to be awaited if the connection is asynchronous."""


@dataclass(frozen=True, kw_only=True)
class SyncDriver(Driver):
    """The driver of a synchronous connection."""

    has_transaction: Callable[[Any], bool]
    """Is a transaction open, or does the driver begin one with the next statement?"""
    block: Callable[[Any], AbstractContextManager[object]]
    """A transaction, or a savepoint if one is open."""
    fetch: Callable[[Any, LiteralString, Parameters], Rows]
    insert: Callable[[Any, LiteralString, Parameters], bool]
    copy: Callable[[Any, Copy], bool]

    def run(self, conn: Any, steps: Steps[Result]) -> Result:
        try:
            step = next(steps)
            while True:
                try:
                    result = self._take(conn, step)
                except BaseException as error:  # noqa: BLE001 - thrown into the generator
                    step = steps.throw(_headrace_error(error))
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _take(self, conn: Any, step: Step) -> object:
        if isinstance(step, Insert):
            return self.insert(conn, step.statement, step.parameters)
        if isinstance(step, Fetch):
            return self.fetch(conn, step.statement, step.parameters)
        if isinstance(step, Copy):
            return self.copy(conn, step)
        if not step.savepoint and self.has_transaction(conn):
            return self.run(conn, step.steps)
        with self.block(conn):
            return self.run(conn, step.steps)


@dataclass(frozen=True, kw_only=True)
class AsyncDriver(Driver):
    """The driver of an asynchronous connection: a SyncDriver whose functions are awaited."""

    has_transaction: Callable[[Any], bool]
    block: Callable[[Any], AbstractAsyncContextManager[object]]
    fetch: Callable[[Any, LiteralString, Parameters], Awaitable[Rows]]
    insert: Callable[[Any, LiteralString, Parameters], Awaitable[bool]]
    copy: Callable[[Any, Copy], Awaitable[bool]]

    async def run(self, conn: Any, steps: Steps[Result]) -> Result:
        try:
            step = next(steps)
            while True:
                try:
                    result = await self._take(conn, step)
                except BaseException as error:  # noqa: BLE001 - thrown into the generator
                    step = steps.throw(_headrace_error(error))
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _take(self, conn: Any, step: Step) -> object:
        if isinstance(step, Insert):
            return await self.insert(conn, step.statement, step.parameters)
        if isinstance(step, Fetch):
            return await self.fetch(conn, step.statement, step.parameters)
        if isinstance(step, Copy):
            return await self.copy(conn, step)
        if not step.savepoint and self.has_transaction(conn):
            return await self.run(conn, step.steps)
        async with self.block(conn):
            return await self.run(conn, step.steps)


def _headrace_error(error: BaseException) -> BaseException:
    """The error of our tree for one of a driver; any other error as it is."""
    ours = map_error(error) if isinstance(error, Exception) and not isinstance(error, HeadraceError) else None
    if ours is None:
        return error
    ours.__cause__ = error
    return ours


@cache
def number_parameters(statement: str) -> str:
    """The statement with $1, $2 … in place of %s."""
    numbers = count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", statement)
