"""Migrations lead to the desired schema, once, under a lock."""

from __future__ import annotations

import threading

import pytest

from headrace.core import MigrationChanged
from headrace.db import Connection, Target, connect, desired_schema, install_pgmq, migrate, pending, query

CATALOG = {
    "columns": """
        select table_name, column_name, data_type, is_nullable, column_default, is_identity
        from information_schema.columns where table_schema = 'headrace'""",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        from pg_constraint where connamespace = 'headrace'::regnamespace""",
    "indexes": "select tablename, indexname, indexdef from pg_indexes where schemaname = 'headrace'",
    "functions": """
        select p.oid::regprocedure::text,
            case when p.prokind = 'a' then (select row(a.*)::text from pg_aggregate a where a.aggfnoid = p.oid)
                else pg_get_functiondef(p.oid) end
        from pg_proc p where pronamespace = 'headrace'::regnamespace""",
    "triggers": "select tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
    "views": "select viewname, definition from pg_views where schemaname = 'headrace'",
    "options": """
        select relname, relkind::text, reloptions from pg_class where relnamespace = 'headrace'::regnamespace""",
    "policies": "select tablename, policyname, cmd, qual, with_check from pg_policies where schemaname = 'headrace'",
    "rights": """
        select oid::regprocedure::text, proacl::text from pg_proc where pronamespace = 'headrace'::regnamespace
        union all
        select oid::regclass::text, concat(relacl, relrowsecurity) from pg_class
        where relnamespace = 'headrace'::regnamespace and relkind <> 'i'""",
    "rows": "select namespace from headrace.namespace",
}


def catalog(conn: Connection) -> dict[str, set[tuple[object, ...]]]:
    return {
        what: {tuple(map(str, row)) for row in conn.execute(text).fetchall() if "migration" not in str(row[:2])}
        for what, text in CATALOG.items()
    }


def test_migrations_lead_to_the_desired_schema(conn: Connection, empty: Target) -> None:
    with connect(empty) as wanted:
        wanted.execute(query("db/bootstrap"))
        install_pgmq(wanted)
        for step in desired_schema():
            wanted.execute(step.text)
        expected = catalog(wanted)
    assert catalog(conn) == expected


def test_migrating_twice_changes_nothing(empty: Target) -> None:
    with connect(empty) as conn:
        assert migrate(conn)
        assert migrate(conn) == []
        assert pending(conn) == []


def test_two_migrators_at_once_apply_every_step_once(empty: Target) -> None:
    applied: list[int] = []

    def run() -> None:
        with connect(empty) as conn:
            applied.append(len(migrate(conn)))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(applied) == 0 and max(applied) > 0


def test_changed_migration_is_refused(conn: Connection) -> None:
    conn.execute("update headrace.migration set checksum = 'another' where name = 'migrations/0001_log'")
    with pytest.raises(MigrationChanged, match="0001_log was applied with checksum another"):
        migrate(conn)


def test_changed_function_is_applied_again(conn: Connection) -> None:
    conn.execute("update headrace.migration set checksum = 'older' where name = 'functions/outbox/publish'")
    assert [step.name for step in migrate(conn)] == ["functions/outbox/publish"]
