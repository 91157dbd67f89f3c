"""Migrations lead to the schema of now, once, under a lock."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from importlib.resources import as_file
from pathlib import Path

import psycopg
import pytest

from headrace.core import Conflict, MigrationChanged
from headrace.db import Connection, Target, connect, migrate, migration_script, pending_steps, uninstall
from headrace.db.sql_files import ROOMS, package_folder
from headrace.log.topics import create_topic
from tests.conftest import PG15

CATALOG = {
    "columns": """
        select table_name, column_name, data_type, is_nullable, column_default, is_identity
        from information_schema.columns where table_schema like 'headrace%'""",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        from pg_constraint where connamespace::regnamespace::text like 'headrace%'""",
    "indexes": "select tablename, indexname, indexdef from pg_indexes where schemaname like 'headrace%'",
    "functions": """
        select p.oid::regprocedure::text,
            case when p.prokind = 'a' then (select row(a.*)::text from pg_aggregate a where a.aggfnoid = p.oid)
                else pg_get_functiondef(p.oid) end
        from pg_proc p where pronamespace::regnamespace::text like 'headrace%'""",
    "triggers": "select tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
    "views": "select viewname, definition from pg_views where schemaname like 'headrace%'",
    "options": """
        select relname, relkind::text, reloptions from pg_class where relnamespace::regnamespace::text like 'headrace%'""",
    "policies": "select tablename, policyname, cmd, qual, with_check from pg_policies where schemaname like 'headrace%'",
    "rights": """
        select oid::regprocedure::text, proacl::text from pg_proc where pronamespace::regnamespace::text like 'headrace%'
        union all
        select oid::regclass::text, concat(relacl, relrowsecurity) from pg_class
        where relnamespace::regnamespace::text like 'headrace%' and relkind <> 'i'
        union all
        select nspname, nspacl::text from pg_namespace where nspname like 'headrace%'""",
    "types": """
        select t.oid::regtype::text, pg_get_constraintdef(c.oid) from pg_type t left join pg_constraint c on c.contypid = t.oid
        where t.typnamespace::regnamespace::text like 'headrace%' and t.typtype = 'd'""",
    "rows": "select namespace from headrace.namespace",
}


def catalog(conn: Connection) -> dict[str, set[tuple[object, ...]]]:
    return {
        what: {tuple(map(str, row)) for row in conn.execute(text).fetchall() if "migration" not in str(row[:2])}
        for what, text in CATALOG.items()
    }


NOTE = "alter table headrace_internal.topic add column note text"


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """The SQL files of a version after this one: a table has one column more, a function and a view that use it are new."""
    root = copy_sql_files(tmp_path)
    (root / "db/sql/migrations").mkdir()
    (root / "db/sql/migrations/0002_note.sql").write_text(f"{NOTE};\n")
    append(root / "log/sql/tables.sql", f"{NOTE};")
    (root / "log/sql/functions/notes.sql").write_text(
        "create or replace function headrace.note_of(p_topic_id integer) returns text language sql stable "
        "as $$ select t.note from headrace_internal.topic t where t.topic_id = p_topic_id $$;\n"
    )
    view = "create or replace view headrace.noted_topic as select topic, note from headrace_internal.topic;"
    append(root / "log/sql/views.sql", view)
    return root


def copy_sql_files(folder: Path) -> Path:
    """A copy of the SQL files of all rooms, to be changed by a test."""
    with as_file(package_folder()) as package:
        for room in ROOMS:
            shutil.copytree(package / room / "sql", folder / room / "sql")
    return folder


def append(file: Path, statement: str) -> None:
    file.write_text(f"{file.read_text()}\n{statement}\n")


def test_migrations_lead_to_the_desired_schema(conn: Connection, empty: Target, next_version: Path) -> None:
    upgraded = [step.name for step in migrate(conn, root=next_version)]
    assert upgraded == ["migrations/0002_note", "log/functions/notes", "log/views"]
    with connect(empty) as fresh:
        assert "migrations/0002_note" not in [step.name for step in migrate(fresh, root=next_version)]
        assert catalog(conn) == catalog(fresh)
        assert migrate(conn, root=next_version) == migrate(fresh, root=next_version) == []


def test_upgrade_keeps_what_is_in_the_tables(conn: Connection, next_version: Path) -> None:
    topic_id = create_topic(conn, "orders")
    migrate(conn, root=next_version)
    assert conn.execute("select headrace.note_of(%s)", (topic_id,)).fetchone() == (None,)
    assert conn.execute("select topic from headrace.noted_topic").fetchall() == [("orders",)]


def test_failed_migration_leaves_the_database_as_it_was(conn: Connection, next_version: Path) -> None:
    before = catalog(conn)
    (next_version / "db/sql/migrations/0003_broken.sql").write_text("alter table headrace_internal.topic add column note text;\n")
    with pytest.raises(psycopg.errors.DuplicateColumn):
        migrate(conn, root=next_version)
    assert catalog(conn) == before


def test_migrating_twice_changes_nothing(empty: Target) -> None:
    with connect(empty) as conn:
        assert migrate(conn)
        assert migrate(conn) == []
        assert pending_steps(conn) == []


@pytest.mark.parametrize("before", ["select 1", "create schema headrace; create schema headrace_internal"])
def test_two_migrators_at_once_apply_every_step_once(empty: Target, before: str) -> None:
    applied: list[int] = []
    with connect(empty) as conn:
        conn.execute(before)

    def run() -> None:
        with connect(empty) as conn:
            applied.append(len(migrate(conn)))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(applied) == 0 and max(applied) > 0


PLANTED = """
    create function public.format(text, text) returns text language plpgsql
        as $$ begin perform set_config('planted.called', 'yes', false); return format($1, variadic array[$2]); end $$;
    create function public.format(text, text, text) returns text language plpgsql
        as $$ begin perform set_config('planted.called', 'yes', false); return format($1, variadic array[$2, $3]); end $$;
    create function public.concat_ws(text, text, text) returns text language plpgsql
        as $$ begin perform set_config('planted.called', 'yes', false); return concat_ws($1, variadic array[$2, $3]); end $$;
"""
"""Functions that fit text better than PostgreSQL's own, which take "any"."""


@pytest.mark.parametrize("way", ["migrate", "script"])
def test_function_planted_in_public_is_neither_bound_nor_called(empty: Target, way: str) -> None:
    with connect(empty) as conn:
        conn.execute("grant create on schema public to public")
        with conn.transaction():
            conn.execute("set local role pg_read_all_stats")
            conn.execute(PLANTED)
        if way == "migrate":
            migrate(conn)
        else:
            conn.execute(migration_script(conn))
        assert conn.execute("select coalesce(current_setting('planted.called', true), '')").fetchone() == ("",)
        bound = """select d.classid::regclass::text, d.objid, d.refobjid::regprocedure::text
            from pg_depend d join pg_proc p on p.oid = d.refobjid and d.refclassid = 'pg_proc'::regclass
            where p.pronamespace = 'public'::regnamespace"""
        assert conn.execute(bound).fetchall() == []


def test_migrate_gives_the_callers_transaction_its_settings_back(empty: Target) -> None:
    """As in a revision of Alembic or a migration of Django, where other statements follow."""
    with connect(empty) as conn, conn.transaction():
        conn.execute("set local search_path = app, public")
        assert migrate(conn)
        settings = "select current_setting('search_path'), current_setting('check_function_bodies')"
        assert conn.execute(settings).fetchone() == ("app, public", "on")


def test_advisory_lock_of_a_stranger_does_not_stop_migrate(conn: Connection, second: Connection) -> None:
    second.execute("select pg_advisory_lock(x'6865616472616365'::bigint)")
    conn.execute("set lock_timeout = '2s'")
    assert migrate(conn) == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("select headrace.create_topic('orders')", "1 topic, which would be lost; drop them with: headrace topic drop NAME"),
        ("select headrace.send_action('mail') from generate_series(1, 2)", "2 waiting actions, which would be lost"),
    ],
)
def test_uninstall_refuses_while_something_would_be_lost(conn: Connection, statement: str, reason: str) -> None:
    conn.execute(statement)
    before = catalog(conn)
    with pytest.raises(Conflict, match=f"headrace is not uninstalled: the database has {reason}"):
        uninstall(conn)
    assert catalog(conn) == before


def test_uninstall_leaves_nothing_and_migrate_installs_again(conn: Connection) -> None:
    before = catalog(conn)
    assert uninstall(conn)
    assert conn.execute("select nspname from pg_namespace where nspname like 'headrace%'").fetchall() == []
    assert conn.execute("select queue_name from pgmq.meta").fetchall() == []
    assert not uninstall(conn)
    assert migrate(conn)
    assert catalog(conn) == before


def test_changed_migration_is_rejected(conn: Connection, next_version: Path) -> None:
    migrate(conn, root=next_version)
    (next_version / "db/sql/migrations/0002_note.sql").write_text(f"{NOTE} default 'none';\n")
    with pytest.raises(MigrationChanged, match="0002_note was applied with checksum"):
        migrate(conn, root=next_version)


def test_schema_changed_without_a_migration_is_rejected(conn: Connection, next_version: Path) -> None:
    (next_version / "db/sql/migrations/0002_note.sql").unlink()
    with pytest.raises(MigrationChanged, match="schema was applied with checksum"):
        migrate(conn, root=next_version)


def test_changed_function_is_applied_again(conn: Connection) -> None:
    conn.execute("update headrace_internal.migration set checksum = 'older' where name = 'log/functions/publish'")
    assert [step.name for step in migrate(conn)] == ["log/functions/publish"]


def test_printed_script_leads_to_the_same_database(conn: Connection, empty: Target) -> None:
    """Run through psql, statement by statement; tables, functions, rights and policies are those of `migrate`."""
    with connect(empty) as fresh:
        script = migration_script(fresh)
    psql = shutil.which("psql", path=f"{PG15 / 'bin'}:{os.environ['PATH']}")
    assert psql, "psql is missing"
    run = [psql, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", empty.dsn]
    result = subprocess.run(run, input=script, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    with connect(empty) as fresh:
        assert catalog(conn) == catalog(fresh)
        assert pending_steps(fresh) == [] and migrate(fresh) == []
