"""Session: what all commands share: databases, namespace, output and exit codes."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import msgspec
import psycopg
import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.options import COMMON_OPTIONS
from headrace.cli.output import Column, cells, console, format_value, json_line, note, table, to_json
from headrace.core import HeadraceError, NotFound, redact, safe_line
from headrace.db import Connection, Target, configured_targets, connect, map_error, parse_targets

P = ParamSpec("P")
T = TypeVar("T")
OptionType: TypeAlias = tuple[Any, Any]
"""The annotation of an option or argument, and its default."""


@dataclass(frozen=True)
class Session:
    """One call of one command."""

    dsn: str | None = field(default=None, repr=False)
    namespace: str | None = None
    json: bool = False

    @cached_property
    def targets(self) -> list[Target]:
        """The databases; the embedded one is started when none is configured."""
        return parse_targets(self.dsn) if self.dsn else configured_targets()

    @property
    def is_embedded(self) -> bool:
        """True if no database is configured, so that the embedded one is used."""
        return not (self.dsn or os.environ.get("HEADRACE_DSN") or os.environ.get("DATABASE_URL"))

    def shards(self, only: Sequence[Target] = ()) -> Iterator[tuple[Target, Connection]]:
        """Connects to each database, or to each of some, one after the other."""
        for target in only or self.targets:
            with connect(target) as conn:
                conn.add_notice_handler(_print_warning)
                yield target, conn

    def bind(
        self, function: Callable[Concatenate[Connection, P], T], *arguments: P.args, **options: P.kwargs
    ) -> Callable[[Connection], T]:
        """A function of the library with all its arguments but the connection, in the namespace of the command."""
        return lambda conn: function(conn, *arguments, **options, namespace=self.namespace)  # type: ignore[arg-type]

    def on_every_shard(self, action: Callable[[Connection], T]) -> list[T]:
        return [action(conn) for _, conn in self.shards()]

    def collect(self, read: Callable[[Connection], Iterable[T]]) -> list[tuple[Target, T]]:
        """Reads from every database; each value comes with its database."""
        return [(target, value) for target, conn in self.shards() for value in read(conn)]

    def find(self, missing: type[NotFound], read: Callable[[Connection], T]) -> tuple[Target, T]:
        """Reads from the first database that does not raise `missing`; raises it when none is left."""
        for target, conn in self.shards():
            try:
                return target, read(conn)
            except missing as error:
                last = error
        raise last

    def show(
        self,
        columns: Sequence[Column],
        values: Sequence[tuple[Target, T]],
        *,
        facts: Callable[[T], dict[str, object]] = msgspec.to_builtins,
        title: str | None = None,
    ) -> None:
        """Prints values as a table, with the shard where there are several, or as JSON with all their fields."""
        if len(self.targets) > 1:
            columns = ["shard", *columns]
            rows = [[target.name, *cells(columns[1:], value)] for target, value in values]
        else:
            rows = [cells(columns, value) for _, value in values]
        self.print([{"shard": target.name} | facts(value) for target, value in values], table(columns, rows, title=title))

    def done(self, message: str, result: object) -> None:
        """Ends a command that changed something: prints a sentence, or the result as JSON."""
        self.print(result, message)

    def print(self, result: object, *parts: str | Table | Text) -> None:
        """Prints tables and lines of text, or the result as JSON."""
        if self.json:
            json_line(result)
            return
        for part in parts:
            console().print(part, markup=False, soft_wrap=isinstance(part, str))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Asks before something that cannot be undone; ends the command unless the answer is yes."""
        if yes:
            return
        if self.json:
            raise typer.BadParameter("with --json there is no prompt; add --yes", param_hint="--yes")
        typer.confirm(safe_line(question), abort=True)


@dataclass
class Changes:
    """Collects the fields that differ, shard by shard, and prints them as `field: before → after`."""

    session: Session
    _by_shard: dict[str, dict[str, tuple[object, object]]] = field(default_factory=dict)

    def add(self, target: Target, before: Mapping[str, object], after: Mapping[str, object]) -> None:
        """Compares the fields of an object of one shard."""
        differing = {name: (before.get(name), value) for name, value in after.items() if before.get(name) != value}
        self._by_shard[target.name] = differing

    def done(self, message: str, result: Mapping[str, object]) -> None:
        """Ends the command: a sentence and a line per change, or JSON with `before` and `after`; by shard if they differ."""
        lines = {place: _change_lines(fields) for place, fields in self._by_shard.items()}
        is_same = len({tuple(shard_lines) for shard_lines in lines.values()}) == 1
        if is_same:
            texts = [f"  {line}" for line in next(iter(lines.values()))]
        else:
            texts = [f"  {place}: {line}" for place, shard_lines in lines.items() for line in shard_lines]
        before, after = (self._values(side, is_same=is_same) for side in (0, 1))
        self.session.print({**result, "before": before, "after": after}, message, *texts)

    def _values(self, side: int, *, is_same: bool) -> dict[str, object]:
        by_shard: dict[str, dict[str, object]] = {
            place: {name: pair[side] for name, pair in fields.items()} for place, fields in self._by_shard.items()
        }
        return next(iter(by_shard.values())) if is_same else {**by_shard}


def _change_lines(fields: Mapping[str, tuple[object, object]]) -> list[str]:
    lines = [
        f"{name.replace('_', ' ')}: {_change_text(before)} → {_change_text(after)}" for name, (before, after) in fields.items()
    ]
    return lines or ["nothing differs from before"]


def _change_text(value: object) -> str:
    return to_json(value) if isinstance(value, dict | list) else format_value(value)


def facts_table(title: str, target: Target | None, facts: Mapping[str, object]) -> Table:
    rows = [
        (name.replace("_", " "), to_json(value) if isinstance(value, dict | list) else format_value(value))
        for name, value in facts.items()
    ]
    return table([(title, ""), (f"on {target}" if target else "", "")], rows)


def command(
    group: typer.Typer,
    name: str,
    *,
    common: Sequence[str] = ("dsn", "namespace", "json"),
    options: Mapping[str, OptionType] = MappingProxyType({}),
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[Concatenate[Session, P], None]]:
    """Makes a command of a function that takes a session: adds the common options and turns errors into exit codes.

    A parameter `**options` takes those of `options` that the user has set, by name."""

    def register(function: Callable[Concatenate[Session, P], None]) -> Callable[Concatenate[Session, P], None]:
        @wraps(function)
        def run(*_args: P.args, **arguments: P.kwargs) -> None:
            session = Session(**{option: arguments.pop(option) for option in common})  # type: ignore[arg-type]
            with exit_codes(as_json=session.json):
                chosen = {name: value for name, value in arguments.items() if name not in options or value is not None}
                function(session, **chosen)  # type: ignore[call-arg, arg-type]

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD:
            own.pop()
        added = {**options, **{option: COMMON_OPTIONS[option] for option in common}}
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in added.items()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        # Each paragraph on one line, so that the help wraps at the width of the terminal.
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n"))
        group.command(name, help=text.strip())(run)
        return function

    return register


@contextmanager
def exit_codes(*, as_json: bool) -> Iterator[None]:
    """Ends the program with message and exit code on an error of headrace, also inside a group; other errors pass."""
    try:
        yield
    except (HeadraceError, psycopg.Error, ExceptionGroup) as error:
        headrace_error = _headrace_error(error)
        if headrace_error is None:
            raise
        _print_error(headrace_error, as_json=as_json)
        raise typer.Exit(headrace_error.exit_code) from None


def _print_warning(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        note(f"warning: {notice.message_primary}" + (f". {notice.message_hint}" if notice.message_hint else ""))


def _headrace_error(error: BaseException) -> HeadraceError | None:
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, ExceptionGroup):
        return next(filter(None, map(_headrace_error, error.exceptions)), None)
    if isinstance(error, psycopg.Error):
        return map_error(error) or HeadraceError(f"PostgreSQL reports: {redact(str(error).strip())}")
    return None


def _print_error(error: HeadraceError, *, as_json: bool) -> None:
    # An error in a text points to its place over several lines; notes name the file.
    message = "\n".join([str(error).strip(), *getattr(error, "__notes__", [])])
    if as_json:
        note(to_json({"error": type(error).__name__, "message": message}))
        return
    sys.stdout.flush()
    console(stderr=True).print(f"[bold red]{type(error).__name__}[/]:", end=" ")
    console(stderr=True).print(message, markup=False, soft_wrap=True)
