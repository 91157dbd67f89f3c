"""The program `headrace`: its command groups under one roof."""

from __future__ import annotations

import signal
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from headrace.cli import (
    _action,
    _archive,
    _backtest,
    _condition,
    _consumer,
    _correlator,
    _dead_letter,
    _demo,
    _doctor,
    _ecl,
    _event_type,
    _migrate,
    _namespace,
    _node,
    _pipeline,
    _prove,
    _publish,
    _replay,
    _rule,
    _schedule,
    _server,
    _tail,
    _topic,
    _trace,
)
from headrace.cli._output import say

app = typer.Typer(
    name="headrace",
    help="An event platform that lives inside your PostgreSQL.",
    epilog="Databases come from --dsn, HEADRACE_DSN or DATABASE_URL; with none of them an embedded PostgreSQL is started. "
    "Begin with: headrace demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        say(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """An event platform that lives inside your PostgreSQL."""


for _room in (_migrate, _publish, _tail, _trace, _replay, _backtest, _doctor, _demo, _prove):
    _room.register(app)
for _name, _group in (
    ("topic", _topic.group),
    ("consumer", _consumer.group),
    ("rule", _rule.group),
    ("correlator", _correlator.group),
    ("condition", _condition.group),
    ("ecl", _ecl.group),
    ("event-type", _event_type.group),
    ("action", _action.group),
    ("dead-letter", _dead_letter.group),
    ("schedule", _schedule.group),
    ("namespace", _namespace.group),
    ("archive", _archive.group),
    ("node", _node.group),
    ("pipeline", _pipeline.group),
    ("server", _server.group),
):
    app.add_typer(_group, name=_name, no_args_is_help=True)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> None:
    """Runs the program; the exit code is the process's."""
    # SIGTERM leaves as Ctrl-C does, through every finally: servers and folders that a command has made do not stay behind.
    signal.signal(signal.SIGTERM, _leave)
    # Named here, so that help and completion are the same for `python -m headrace`.
    app(prog_name="headrace")
