"""The program `headrace`: its command groups under one roof."""

from __future__ import annotations

import signal
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from headrace.cli import (
    action,
    archive,
    backtest,
    condition,
    consumer,
    correlator,
    dead_letter,
    demo,
    doctor,
    ecl,
    event_type,
    migrate,
    namespace,
    node,
    pipeline,
    prove,
    publish,
    replay,
    rule,
    schedule,
    server,
    tail,
    topic,
    trace,
)
from headrace.cli.output import say

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


for _room in (migrate, publish, tail, trace, replay, backtest, doctor, demo, prove):
    _room.register(app)
for _name, _group in (
    ("topic", topic.group),
    ("consumer", consumer.group),
    ("rule", rule.group),
    ("correlator", correlator.group),
    ("condition", condition.group),
    ("ecl", ecl.group),
    ("event-type", event_type.group),
    ("action", action.group),
    ("dead-letter", dead_letter.group),
    ("schedule", schedule.group),
    ("namespace", namespace.group),
    ("archive", archive.group),
    ("node", node.group),
    ("pipeline", pipeline.group),
    ("server", server.group),
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
