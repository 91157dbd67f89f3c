"""The program `headrace`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Annotated, NoReturn

from typer import Exit, Option, Typer

from headrace.cli.lazy_group import Program

app = Typer(
    name="headrace",
    cls=Program,
    epilog="The database comes from --dsn, HEADRACE_DSN or DATABASE_URL; without them, headrace starts an embedded PostgreSQL. "
    "To begin, run: headrace demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"headrace {version('headrace')}\n")
        raise Exit


@app.callback()
def root(
    _version: Annotated[bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """An event platform that runs inside your PostgreSQL."""


def _exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _print_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    from headrace.cli.terminal import print_unexpected

    print_unexpected(kind, error, trace)


def main(words: Sequence[str] | None = None, *, prog_name: str = "headrace") -> None:
    """Runs the program with the process's arguments, or with `words`, and exits with its exit code."""
    # SIGTERM ends the program like Ctrl-C, through every `finally`, so that the servers and folders of a command are removed.
    signal.signal(signal.SIGTERM, _exit_on_signal)
    sys.excepthook = _print_unexpected
    # The name is set here, so that help and completion are the same for `python -m headrace`.
    app(words, prog_name=prog_name)
