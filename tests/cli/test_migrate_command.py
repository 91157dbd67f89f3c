"""`headrace migrate`: applies, checks, prints."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from headrace.db import Server, Target, connect, pending, steps
from tests.cli.conftest import call


@pytest.fixture
def bare(server: Server) -> Iterator[Target]:
    """A database without headrace."""
    name = f"bare_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}")
    yield Target("bare", server.dsn(name))
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def test_migrate_lists_what_it_applied_once(bare: Target) -> None:
    first = call("migrate", "--dsn", bare.dsn, "--json").json
    assert first == [{"shard": "main", "applied": [step.name for step in steps()]}]
    assert call("migrate", "--dsn", bare.dsn).out == "main: already up to date\n"


def test_check_exits_with_6_while_something_is_missing(bare: Target) -> None:
    missing = call("migrate", "--check", "--dsn", bare.dsn, "--json")
    assert missing.code == 6
    assert len(missing.json[0]["missing"]) == len(steps())
    call("migrate", "--dsn", bare.dsn)
    assert call("migrate", "--check", "--dsn", bare.dsn).code == 0


def test_printed_sql_runs_in_psql_and_is_recorded(server: Server, bare: Target, tmp_path: Path) -> None:
    script = tmp_path / "migrate.sql"
    script.write_text(call("migrate", "--sql", "--dsn", bare.dsn).out)
    with connect(bare) as conn:
        assert len(pending(conn)) == len(steps()), "--sql must not apply anything"
    psql = [server.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, bare.dsn]
    subprocess.run(psql, check=True, capture_output=True, env={**os.environ, "PGOPTIONS": "-c client_min_messages=error"})
    with connect(bare) as conn:
        assert pending(conn) == []
    assert call("migrate", "--sql", "--dsn", bare.dsn).out.startswith("-- Nothing to do")


def test_every_shard_is_migrated(server: Server, bare: Target) -> None:
    other = f"bare_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {other}")
    shards = f"one={bare.dsn} two={server.dsn(other)}"
    assert [one["shard"] for one in call("migrate", "--dsn", shards, "--json").json] == ["one", "two"]
    assert call("migrate", "--check", "--dsn", shards).code == 0
