"""Migrations: numbered SQL that leads an empty or older database to the schema of this version.

Owns: the table headrace.migration. Promises: one migrator at a time (advisory lock); all or nothing (one transaction);
a migration whose text changed after it was applied is refused, not guessed at.
Functions are written as `create or replace` in files of their own; a file is applied again when its text has changed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import LiteralString

import psycopg

from headrace.core import MigrationChanged
from headrace.db._queue import install_pgmq, pgmq_script
from headrace.db._sql import query, sql_files
from headrace.db._sqlstate import translated

_LOCK = 0x6865616472616365  # "headrace"


@dataclass(frozen=True)
class Step:
    """One file to apply. A `repeatable` one is applied again whenever its text changes."""

    name: str
    text: LiteralString
    repeatable: bool

    @property
    def checksum(self) -> str:
        return sha256(self.text.encode()).hexdigest()


def steps() -> list[Step]:
    """Every step in order: functions that tables stand on, numbered migrations, all other functions."""
    functions = [Step(f"functions/{name}", text, True) for name, text in sql_files("functions")]
    base = [step for step in functions if step.name.startswith("functions/core/")]
    numbered = [Step(f"migrations/{name}", text, False) for name, text in sql_files("migrations")]
    return base + numbered + [step for step in functions if step not in base]


def desired_schema() -> list[Step]:
    """The picture of now, in one go: what the migrations must lead to."""
    schema = [Step(f"schema/{name}", text, False) for name, text in sql_files("schema")]
    return (
        [step for step in steps() if step.name.startswith("functions/core/")]
        + schema
        + [step for step in steps() if step.repeatable and not step.name.startswith("functions/core/")]
        + [Step("secure", query("db/secure"), True)]
    )


def migrate(conn: psycopg.Connection[tuple[object, ...]]) -> list[Step]:
    """Applies what is missing, in one transaction, and returns it."""
    with translated(), conn.transaction():
        conn.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        conn.execute(query("db/bootstrap"))
        install_pgmq(conn)
        due = pending(conn)
        for step in due:
            conn.execute(step.text)
            conn.execute(query("db/record_migration"), {"name": step.name, "checksum": step.checksum})
        if due:
            conn.execute(query("db/secure"))
        return due


def migration_script(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    """What `migrate` would do, as SQL to run with psql or any other tool; it records what it applies."""
    due = pending(conn)
    if not due:
        return "-- Nothing to do: the database has the schema of this version.\n"
    cursor = psycopg.ClientCursor(conn)
    parts = ["begin;", cursor.mogrify("select pg_advisory_xact_lock(%s);", (_LOCK,)), query("db/bootstrap").strip()]
    if queue := pgmq_script(conn).strip():
        parts += ["-- pgmq, on which the action queues stand", queue]
    for step in due:
        record = cursor.mogrify(query("db/record_migration"), {"name": step.name, "checksum": step.checksum})
        parts += [f"-- {step.name}", step.text.strip(), record.strip()]
    return "\n\n".join([*parts, "commit;"]) + "\n"


def pending(conn: psycopg.Connection[tuple[object, ...]]) -> list[Step]:
    """The steps a database still needs; raises MigrationChanged for one that was applied with other text."""
    if conn.execute("select to_regclass('headrace.migration')").fetchone() == (None,):
        return steps()
    applied: dict[str, str] = dict(conn.execute(query("db/applied_migrations")).fetchall())  # type: ignore[arg-type]
    for step in steps():
        if not step.repeatable and applied.get(step.name, step.checksum) != step.checksum:
            raise MigrationChanged(
                f"{step.name} was applied with checksum {applied[step.name][:12]}, this version has {step.checksum[:12]}; "
                "install the version of headrace that belongs to this database, and upgrade from there"
            )
    return [step for step in steps() if applied.get(step.name) != step.checksum]
