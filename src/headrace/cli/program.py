"""The program `headrace`.

Help and completion come from a table of help lines; a command's module is imported when the command runs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer import Exit, Option, Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

if TYPE_CHECKING:
    from typer._click import Command, Context

PANELS: Mapping[str, tuple[str, ...]] = {
    "Get started": ("demo", "server", "migrate", "doctor"),
    "Events": ("topic", "publish", "tail", "trace", "consumer", "event-type", "asyncapi", "token", "hook"),
    "Reactions": ("plan", "apply", "rule", "condition", "correlator", "ecl", "action", "dead-letter", "schedule", "relay"),
    "Processes": ("node", "console", "metrics", "pipeline", "pause", "resume"),
    "History": ("archive", "replay", "backtest"),
    "Administration": ("namespace", "prove"),
}
"""The commands of `headrace`, by the panel of the help they are in."""
HELP_LINES: Mapping[str, str] = dict(
    line.split("\t") for line in Path(__file__).with_name("help_lines.tsv").read_text(encoding="utf-8").splitlines()
)
"""The help line of every command, by its words. `docs/generate.py` writes the file from the code."""
MODULES: Mapping[str, str] = {
    "apply": "plan",
    "resume": "pause",
    **dict.fromkeys(("doctor", "migrate"), "database"),
    **dict.fromkeys(("asyncapi", "replay", "tail", "trace"), "events"),
}
"""Modules that are not named like their command."""


def load_command(name: str) -> Command:
    """Imports the module of a command and builds the command, or the group of commands."""
    module = import_module(f"headrace.cli.{MODULES.get(name, name).replace('-', '_')}")
    parent = typer.Typer(add_completion=False, rich_markup_mode="rich")
    # A group without help is only a module's list of top-level commands.
    parent.add_typer(module.group, name=name if module.group.info.help else None, no_args_is_help=True)
    return get_group(parent).commands[name]


def command_names() -> list[str]:
    """The names of the top-level commands, in the order of the help."""
    return [name for names in PANELS.values() for name in names]


class Program(TyperGroup):
    """The top-level commands."""

    def list_commands(self, ctx: Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        panel = next((panel for panel, names in PANELS.items() if cmd_name in names), None)
        return _described(cmd_name, cmd_name, panel) if panel else None

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        name = args[0]
        if name not in command_names():
            # They are suggested if the name is a typing error.
            self.commands = {known: described for known in command_names() if (described := self.get_command(ctx, known))}
            return super().resolve_command(ctx, args)
        is_group = any(line.startswith(f"{name} ") for line in HELP_LINES)
        group = LazyGroup(name=name, help=HELP_LINES[name], no_args_is_help=True) if is_group else None
        return name, group or load_command(name), args[1:]


class LazyGroup(TyperGroup):
    """A group of commands, imported when one of them runs."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [words.removeprefix(f"{self.name} ") for words in HELP_LINES if words.startswith(f"{self.name} ")]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        return _described(f"{self.name} {cmd_name}", cmd_name, None)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        group = load_command(str(self.name))
        assert isinstance(group, TyperGroup)
        return group.resolve_command(ctx, args)


def _described(words: str, name: str, panel: str | None) -> Command | None:
    """A command as the help of its group shows it."""
    return TyperCommand(name, help=HELP_LINES[words], rich_help_panel=panel) if words in HELP_LINES else None


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
    from headrace.cli.output import print_unexpected

    print_unexpected(kind, error, trace)


def main(words: Sequence[str] | None = None, *, prog_name: str = "headrace") -> None:
    """Runs the program with the process's arguments, or with `words`, and exits with its exit code."""
    # SIGTERM ends the program like Ctrl-C, through every `finally`, so that the servers and folders of a command are removed.
    signal.signal(signal.SIGTERM, _exit_on_signal)
    sys.excepthook = _print_unexpected
    # The name is set here, so that help and completion are the same for `python -m headrace`.
    app(words, prog_name=prog_name)
