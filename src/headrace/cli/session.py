"""Session: what every command shares: its databases, its namespace, its way to print, its way to fail."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Annotated, Concatenate, ParamSpec, TypeVar

import msgspec
import psycopg
import typer

from headrace.cli.output import console, json_line, note, table, to_json
from headrace.core import HeadraceError
from headrace.db import Connection, Target, configured_targets, connect, map_error, parse_targets

P = ParamSpec("P")
T = TypeVar("T")

PANEL = "Common options"
Dsn = Annotated[
    str | None,
    typer.Option("--dsn", help="Database, in place of HEADRACE_DSN; several shards as 'name=address …'.", rich_help_panel=PANEL),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", help="Work in this namespace, not in 'default'.", rich_help_panel=PANEL)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", rich_help_panel=PANEL)]
_COMMON: dict[str, tuple[object, object]] = {"dsn": (Dsn, None), "namespace": (Namespace, None), "json": (AsJson, False)}


@dataclass(frozen=True)
class Session:
    """One call of one command."""

    dsn: str | None = None
    namespace: str | None = None
    json: bool = False

    @cached_property
    def targets(self) -> list[Target]:
        """The databases; the embedded one is started when none is configured."""
        return parse_targets(self.dsn) if self.dsn else configured_targets()

    def shards(self) -> Iterator[tuple[Target, Connection]]:
        """Every database with a connection, one after the other."""
        for target in self.targets:
            with connect(target) as conn:
                conn.add_notice_handler(_warn)
                yield target, conn

    def found(self, read: Callable[[Connection], Iterable[T]]) -> list[tuple[Target, T]]:
        """What is read on every database, each with where it is."""
        return [(target, one) for target, conn in self.shards() for one in read(conn)]

    def show(
        self,
        columns: Sequence[str],
        found: Iterable[tuple[Target, T]],
        row: Callable[[T], Sequence[object]],
        *,
        facts: Callable[[T], dict[str, object]] = msgspec.to_builtins,
    ) -> None:
        """What was found: a table with a row for each, or all the facts as JSON."""
        if self.json:
            json_line([{"shard": target.name} | facts(one) for target, one in found])
        else:
            self.rows(columns, ((target, row(one)) for target, one in found))

    def rows(
        self, columns: Sequence[str], values: Iterable[tuple[Target, Sequence[object]]], *, title: str | None = None
    ) -> None:
        """A table of rows; the shard is shown where there are several."""
        if len(self.targets) > 1:
            console().print(table(["shard", *columns], ([target.name, *row] for target, row in values), title=title))
        else:
            console().print(table(columns, (row for _, row in values), title=title))

    def done(self, message: str, result: object) -> None:
        """The end of a command that changed something: a sentence, or the result as JSON."""
        if self.json:
            json_line(result)
        else:
            console().print(message, markup=False)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Asks before something that cannot be undone; ends the command unless the answer is yes."""
        if yes:
            return
        if self.json:
            raise typer.BadParameter("with --json nobody can be asked; add --yes", param_hint="--yes")
        typer.confirm(question, abort=True)


def command(
    group: typer.Typer, name: str, *, common: Sequence[str] = ("dsn", "namespace", "json"), epilog: str | None = None
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[Concatenate[Session, P], None]]:
    """Makes a function of a session a command; the common options are added, and its errors become exit codes."""

    def register(function: Callable[Concatenate[Session, P], None]) -> Callable[Concatenate[Session, P], None]:
        @wraps(function)
        def run(*_args: P.args, **given: P.kwargs) -> None:
            session = Session(**{option: given.pop(option) for option in common})  # type: ignore[arg-type]
            with exit_codes(as_json=session.json):
                function(session, **given)  # type: ignore[call-arg]

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        added = [_parameter(option) for option in common]
        signature = inspect.Signature([*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *added])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
        group.command(name, epilog=epilog)(run)
        return function

    return register


def _parameter(option: str) -> inspect.Parameter:
    annotation, default = _COMMON[option]
    return inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


@contextmanager
def exit_codes(*, as_json: bool) -> Iterator[None]:
    """Errors of ours, also in a group of errors, end the program with a message and their exit code; others pass."""
    try:
        yield
    except (HeadraceError, psycopg.Error, ExceptionGroup) as error:
        ours = _ours(error)
        if ours is None:
            raise
        _tell(ours, as_json=as_json)
        raise typer.Exit(ours.exit_code) from None


def _warn(notice: psycopg.errors.Diagnostic) -> None:
    """What the database warns of stands beside the result."""
    if notice.severity_nonlocalized == "WARNING":
        note(f"warning: {notice.message_primary}" + (f". {notice.message_hint}" if notice.message_hint else ""))


def _ours(error: BaseException) -> HeadraceError | None:
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, ExceptionGroup):
        return next((found for child in error.exceptions if (found := _ours(child))), None)
    if isinstance(error, psycopg.Error):
        return map_error(error) or HeadraceError(f"PostgreSQL says: {str(error).strip()}")
    return None


def _tell(error: HeadraceError, *, as_json: bool) -> None:
    # Errors in a text show the place in it, over several lines; notes say in which file that was.
    message = "\n".join([str(error).strip(), *getattr(error, "__notes__", [])])
    if as_json:
        note(to_json({"error": type(error).__name__, "message": message}))
        return
    sys.stdout.flush()
    console(stderr=True).print(f"[bold red]{type(error).__name__}[/]:", end=" ")
    console(stderr=True).print(message, markup=False, soft_wrap=True)
