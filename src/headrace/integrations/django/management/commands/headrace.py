"""`manage.py headrace …`: all commands of `headrace`, on Django's database."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headrace.cli import app, main
from headrace.integrations.django.database import database_alias, database_dsn


class Command(BaseCommand):
    """Hands all words to headrace's own command line, which parses them."""

    help = "Runs a command of headrace on Django's database, for example: manage.py headrace topic list"
    requires_system_checks: list[str] = []  # noqa: RUF012

    def run_from_argv(self, argv: list[str]) -> None:
        """From the command line, where `-h` is headrace's."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        # Django has used --settings and --pythonpath already.
        for option in ("--settings", "--pythonpath", "--database"):
            parser.add_argument(option)
        options, words = parser.parse_known_args(argv[2:])
        with _database(options.database):
            main(words, prog_name=f"{Path(argv[0]).name} headrace")

    def add_arguments(self, parser: Any) -> None:
        """From a program: call_command("headrace", "topic", "list", database="default")."""
        parser.add_argument("words", nargs=argparse.REMAINDER, help="The command and its arguments.")
        parser.add_argument("--database", help="Alias of the database, instead of HEADRACE_DATABASE.")

    def handle(self, *_arguments: object, words: list[str], database: str | None = None, **_options: object) -> None:
        with _database(database):
            # Do not call `main`, which installs signal handlers and ends the process.
            code = app(words, prog_name="headrace", standalone_mode=False)
        if code:
            raise CommandError(f"headrace {' '.join(words[:2])} ended with exit code {code}", returncode=code)


@contextmanager
def _database(alias: str | None) -> Iterator[None]:
    """Makes a Django database that of headrace's commands. Through the environment: the process list shows the arguments of a
    program, and the address has the password."""
    before = os.environ.get("HEADRACE_DSN")
    os.environ["HEADRACE_DSN"] = database_dsn(alias or database_alias())
    try:
        yield
    finally:
        if before is None:
            del os.environ["HEADRACE_DSN"]
        else:
            os.environ["HEADRACE_DSN"] = before
