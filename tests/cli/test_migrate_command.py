"""`headrace migrate`: applies, checks, prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from headrace.db import RELEASE, Server, Target, connect, pending_steps
from tests.builders import own_database
from tests.cli.conftest import call


def test_migrate_lists_what_it_applied_once(empty: Target) -> None:
    with connect(empty) as conn:
        expected = pending_steps(conn)
    first = call("migrate", "--dsn", empty.dsn, "--json").json
    assert first == [{"shard": "main", "applied": [step.name for step in expected]}]
    assert call("migrate", "--dsn", empty.dsn).out == f"database main: up to date, release {RELEASE}\n"


def test_migrate_prints_one_line_and_every_step_if_asked(empty: Target) -> None:
    missing = call("migrate", "--check", "--dsn", empty.dsn)
    steps = call("migrate", "--check", "--verbose", "--dsn", empty.dsn).out.splitlines()
    assert missing.out == f"database main: {len(steps) - 1} steps missing\n"
    assert "missing log/functions/publish" in steps
    assert call("migrate", "--dsn", empty.dsn).out == f"database main: migrated, {len(steps) - 1} steps, release {RELEASE}\n"


def test_check_exits_with_6_while_something_is_missing(empty: Target) -> None:
    missing = call("migrate", "--check", "--dsn", empty.dsn, "--json")
    assert missing.code == 6
    assert len(missing.json[0]["missing"]) > 50
    call("migrate", "--dsn", empty.dsn)
    assert call("migrate", "--check", "--dsn", empty.dsn).code == 0


def test_printed_sql_runs_in_psql_and_is_recorded(server: Server, empty: Target, tmp_path: Path) -> None:
    script = tmp_path / "migrate.sql"
    script.write_text(call("migrate", "--sql", "--dsn", empty.dsn).out)
    with connect(empty) as conn:
        assert conn.execute("select to_regnamespace('headrace')").fetchone() == (None,), "--sql must not apply anything"
    psql = [server.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, empty.dsn]
    subprocess.run(psql, check=True, capture_output=True, env={**os.environ, "PGOPTIONS": "-c client_min_messages=error"})
    with connect(empty) as conn:
        assert pending_steps(conn) == []
    assert call("migrate", "--sql", "--dsn", empty.dsn).out.startswith("-- Nothing to do")


def test_every_shard_is_migrated(server: Server, empty: Target) -> None:
    with own_database(server, "other") as other:
        shards = f"one={empty.dsn} two={other.dsn}"
        assert [one["shard"] for one in call("migrate", "--dsn", shards, "--json").json] == ["one", "two"]
        assert call("migrate", "--check", "--dsn", shards).code == 0
