"""The command line, called in this process."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.db import Target
from tests.conftest import temporary_folder


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        return json.loads(self.err.splitlines()[-1])


Cli = Callable[..., Answer]


@contextmanager
def own_logging() -> Iterator[None]:
    """A command may log to its own standard error, which is closed after the call: the handlers of the test's process come back."""
    root = logging.getLogger()
    handlers, level = root.handlers.copy(), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def call(*words: str, stdin: str | None = None) -> Answer:
    """One call of `headrace`; an error that is not ours is raised."""
    with own_logging():
        result = CliRunner().invoke(app, list(words), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def cli(database: Target) -> Cli:
    """Calls `headrace` on the test's database."""
    return lambda *words, stdin=None: call(*words, "--dsn", database.dsn, stdin=stdin)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that a server of another user can reach."""
    folder = temporary_folder(in_memory=True)
    yield folder
    shutil.rmtree(folder)
