"""The command line, for the archive's tests."""

from __future__ import annotations

import pytest

from headrace.db import Target
from tests.cli.conftest import Cli, call


@pytest.fixture
def cli(database: Target) -> Cli:
    """Calls `headrace` on the test's database."""
    return lambda *words, stdin=None: call(*words, "--dsn", database.dsn, stdin=stdin)
