"""Migrations: SQL files that bring an empty or older database to the schema of this version.

Owns: the tables headrace_internal.migration and headrace_internal.release. Promises: one migrator at a time (it locks the table
headrace_internal.migration, which no other role can do); all or nothing (one transaction, or a savepoint of the caller's, whose
settings are as before afterwards); no function or operator that others have created is called or bound, whatever the search path;
a migration whose text changed after it was applied is rejected; a database that a newer release has migrated is left as it is.

The rooms' `tables.sql` show the tables as they are now. An empty database gets them directly; an older one gets the numbered files
of `db/sql/migrations` that it lacks, which must lead to the same tables. Files of functions and views consist of `create or replace`
statements; a file is applied again when its text has changed.

`uninstall` reverses the first migration. It refuses while there are topics, waiting actions or dead letters, and leaves
pgmq, which may have other queues. pgmq, the base of the action queues, is installed as an extension if the server has it, else by the
SQL of its Python package, which needs no superuser; an installed pgmq is left as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources.abc import Traversable
from typing import LiteralString, cast

import psycopg
import psycopg.errors

from headrace.core import Conflict, MigrationChanged, map_database_errors
from headrace.db.requirements import OLDEST_NODE, RELEASE, check_migrator
from headrace.db.sql_files import query, sql_files

_SCHEMA = "schema"
_SETTINGS = {"search_path": "pg_catalog, pg_temp", "check_function_bodies": "off", "client_min_messages": "warning"}
"""What our steps run with. A view binds the functions and operators that the search path finds when it is created, and anybody may
have created some where everybody may create. A function may call another one that is created after it."""
_LOCK: LiteralString = "lock table headrace_internal.migration in exclusive mode"
_SECURE: LiteralString = "select headrace_internal.secure();"
"""Brings rights up to date, for the tables and functions that exist then."""
_BOTH_CREATED = (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema, psycopg.errors.DuplicateTable)


@dataclass(frozen=True)
class MigrationStep:
    """One file to apply. A `repeatable` one is applied again whenever its text changes."""

    name: str
    text: LiteralString
    repeatable: bool = True

    @property
    def checksum(self) -> str:
        return sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class _Files:
    """The SQL files of a version, in the order they are applied: the functions of core, which tables use; the tables of all rooms as one
    step; the other functions, which use tables; the views, which use functions."""

    core: list[MigrationStep]
    schema: MigrationStep
    migrations: list[MigrationStep]
    functions_and_views: list[MigrationStep]

    @classmethod
    def read(cls, root: Traversable | None = None) -> _Files:
        steps = [MigrationStep(*file) for file in [*sql_files("functions", root), *sql_files("views", root)]]
        core = [step for step in steps if step.name.startswith("core/")]
        # The texts are files of ours.
        schema: LiteralString = "\n".join(text for _, text in sql_files("tables", root))
        return cls(
            core=core,
            schema=MigrationStep(_SCHEMA, schema, repeatable=False),
            migrations=[
                MigrationStep(name.removeprefix("db/"), text, repeatable=False) for name, text in sql_files("migrations", root)
            ],
            functions_and_views=[step for step in steps if step not in core],
        )

    def pending(self, applied: dict[str, str]) -> list[MigrationStep]:
        """What a database lacks that has the steps `applied`, by their checksums."""
        if _SCHEMA not in applied:
            tables = [self.schema]
        else:
            tables = [step for step in self.migrations if step.name not in applied]
            self._reject_changed(applied, tables)
        steps = [*self.core, *tables, *self.functions_and_views]
        return [step for step in steps if applied.get(step.name) != step.checksum]

    def _reject_changed(self, applied: dict[str, str], pending: list[MigrationStep]) -> None:
        changed = [step for step in self.migrations if applied.get(step.name, step.checksum) != step.checksum]
        if not pending and applied[_SCHEMA] != self.schema.checksum:
            changed.append(self.schema)
        for step in changed:
            raise MigrationChanged(
                f"{step.name} was applied with checksum {applied[step.name][:12]}, this version has {step.checksum[:12]}; "
                "install the version of headrace that belongs to this database, and upgrade from there"
            )

    def recorded(self, steps: Iterable[MigrationStep]) -> list[MigrationStep]:
        """What is on record after these steps: a database has the schema of now, however it came by it."""
        repeatable = [step for step in steps if step.repeatable]
        return [*repeatable, self.schema, *self.migrations]


def migrate(
    conn: psycopg.Connection[tuple[object, ...]], *, root: Traversable | None = None, release: str = RELEASE
) -> list[MigrationStep]:
    """Applies what is missing, in one transaction, and returns it. `root` is the folder that holds the rooms, ours by default.

    Raises SchemaTooNew, and changes nothing, if a release after `release` has migrated the database."""
    files = _Files.read(root)
    with map_database_errors(), own_settings(conn):
        _bootstrap(conn)
        conn.execute(_LOCK)
        applied = _applied(conn, files, release)
        install_pgmq(conn)
        steps = files.pending(applied)
        for step in steps:
            conn.execute(step.text)
        for step in files.recorded(steps) if steps else []:
            conn.execute(query("db/record_migration"), {"name": step.name, "checksum": step.checksum})
        if steps or release not in _releases(conn):
            conn.execute(query("db/record_release"), {"release": release, "oldest_node": OLDEST_NODE})
        conn.execute(_SECURE)
        return steps


def migration_script(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    """What `migrate` would do, as SQL to run with psql or any other tool; it records what it applies."""
    files = _Files.read()
    with map_database_errors(), own_settings(conn):
        steps = files.pending(_applied(conn, files, RELEASE))
        queue = pgmq_script(conn).strip()
    if not steps:
        return "-- Nothing to do: the database has the schema of this version.\n"
    cursor = psycopg.ClientCursor(conn)
    settings = [f"set local {name} = {value};" for name, value in _SETTINGS.items()]
    parts = ["begin;", *settings, query("db/bootstrap").strip(), f"{_LOCK};"]
    if queue:
        parts += ["-- pgmq, on which the action queues stand", queue]
    for step in steps:
        parts += [f"-- {step.name}", step.text.strip()]
    for step in files.recorded(steps):
        parts.append(cursor.mogrify(query("db/record_migration"), {"name": step.name, "checksum": step.checksum}).strip())
    release = {"release": RELEASE, "oldest_node": OLDEST_NODE}
    parts.append(cursor.mogrify(query("db/record_release"), release).strip())
    return "\n\n".join([*parts, _SECURE, "commit;"]) + "\n"


def pending_steps(conn: psycopg.Connection[tuple[object, ...]]) -> list[MigrationStep]:
    """The steps a database still needs. Raises MigrationChanged for one that was applied with other text, and SchemaTooNew if a
    newer release has migrated the database."""
    files = _Files.read()
    with map_database_errors(), own_settings(conn):
        return files.pending(_applied(conn, files, RELEASE))


@contextmanager
def own_settings(conn: psycopg.Connection[tuple[object, ...]]) -> Iterator[None]:
    """A transaction with our settings, or a savepoint of the caller's transaction, which gets its own settings back at the end."""
    with conn.transaction():
        # Qualified, because the caller's search path still applies.
        callers = {name: _set(conn, name, value) for name, value in _SETTINGS.items()}
        yield
        for name, value in callers.items():
            _set(conn, name, value)


def _set(conn: psycopg.Connection[tuple[object, ...]], name: str, value: object) -> object:
    """Sets a setting for this transaction and returns its value before."""
    row = conn.execute("select pg_catalog.current_setting(%s::pg_catalog.text)", (name,)).fetchone()
    conn.execute("select pg_catalog.set_config(%s::pg_catalog.text, %s::pg_catalog.text, true)", (name, value))
    return row[0] if row else None


def _bootstrap(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Creates the tables of the migrator. Another first migrator may do so at the same time: then we wait for its end and use
    what it has created."""
    try:
        with conn.transaction():
            conn.execute(query("db/bootstrap"))
    except _BOTH_CREATED:
        conn.execute(query("db/bootstrap"))


def _applied(conn: psycopg.Connection[tuple[object, ...]], files: _Files, release: str) -> dict[str, str]:
    """The applied steps by their checksums, if this release may add to them."""
    if not _exists(conn, "headrace_internal.migration"):
        return {}
    applied: dict[str, str] = dict(conn.execute(query("db/applied_migrations")).fetchall())  # type: ignore[arg-type]
    check_migrator(applied, [step.name for step in files.migrations], _releases(conn), release)
    return applied


def _releases(conn: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    """The releases that have migrated the database."""
    if not _exists(conn, "headrace_internal.release"):
        return []
    return [str(release) for (release,) in conn.execute("select r.release from headrace_internal.release r").fetchall()]


def _exists(conn: psycopg.Connection[tuple[object, ...]], table: str) -> bool:
    return conn.execute("select to_regclass(%s) is not null", (table,)).fetchone() == (True,)


def uninstall(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Drops the schemas headrace and headrace_internal and the queues; returns whether there were any.

    Runs in one transaction, or in a savepoint of the caller's. Raises Conflict, and drops nothing, while anything is stored."""
    with map_database_errors(), own_settings(conn):
        if not _exists(conn, "headrace_internal.migration"):
            return False
        conn.execute("lock table headrace_internal.migration in access exclusive mode")
        kinds = (
            ("topic", "drop them with: headrace topic drop NAME"),
            ("waiting action", "let a node handle them"),
            ("dead letter", "redrive or discard them with: headrace dead-letter"),
        )
        counts = cast(tuple[int, ...], conn.execute(query("db/stored")).fetchone())
        for count, (thing, advice) in zip(counts, kinds, strict=True):
            if count:
                noun = f"{count} {thing}{'s' if count > 1 else ''}"
                raise Conflict(f"headrace is not uninstalled: the database has {noun}, which would be lost; {advice}")
        conn.execute(query("db/uninstall"))
    return True


_IS_INSTALLED = "select to_regclass('pgmq.meta') is not null"
_IS_AVAILABLE = "select exists (select from pg_available_extensions where name = 'pgmq')"
_CREATE: LiteralString = "create extension pgmq;"


def install_pgmq(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Installs pgmq unless it is installed."""
    script = pgmq_script(conn)
    if script == _CREATE:
        try:
            with conn.transaction():
                conn.execute(script)
        except psycopg.errors.InsufficientPrivilege:
            script = _packaged_sql()
    if script and script != _CREATE:
        conn.execute(script)


def pgmq_script(conn: psycopg.Connection[tuple[object, ...]]) -> LiteralString:
    """The SQL that installs pgmq in this database; empty if it is installed."""
    if conn.execute(_IS_INSTALLED).fetchone() == (True,):
        return ""
    return _CREATE if conn.execute(_IS_AVAILABLE).fetchone() == (True,) else _packaged_sql()


def _packaged_sql() -> LiteralString:
    # Imported late: the package imports SQLAlchemy, which takes long.
    from pgmq.install import get_embedded_install_sql

    return get_embedded_install_sql()
