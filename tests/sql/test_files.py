"""One file per function and view, named after it, with a header; no object of ours outside our two schemas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.db import Connection
from headrace.db.sql_files import package_sql, sql_files

FUNCTION = re.compile(r"^\s*create or replace (?:function|aggregate)\s+(\w+)\.(\w+)", re.MULTILINE)
VIEW = re.compile(r"^create or replace view\s+(\w+)\.(\w+)", re.MULTILINE)
SCHEMAS = {"headrace", "headrace_internal"}

pytestmark = pytest.mark.lane("pg18")


def definitions(folder: str, pattern: re.Pattern[str]) -> dict[str, set[tuple[str, str]]]:
    """The schema and name of every object that a file defines, by file."""
    return {name: set(pattern.findall(text)) for name, text in sql_files(package_sql() / folder)}


@pytest.mark.parametrize(("folder", "pattern"), [("functions", FUNCTION), ("views", VIEW)])
def test_every_file_defines_the_object_it_is_named_after(folder: str, pattern: re.Pattern[str]) -> None:
    for file, objects in definitions(folder, pattern).items():
        assert {name for _, name in objects} == {Path(file).name}, file
        assert len(objects) == 1 and {schema for schema, _ in objects} <= SCHEMAS, file


@pytest.mark.parametrize("folder", ["functions", "views", "schema"])
def test_every_file_begins_with_a_comment(folder: str) -> None:
    assert [name for name, text in sql_files(package_sql() / folder) if not text.startswith("-- ")] == []


def test_every_function_and_view_of_the_database_has_its_file(conn: Connection) -> None:
    files = {(schema, name) for objects in definitions("functions", FUNCTION).values() for schema, name in objects}
    files |= {(schema, name) for objects in definitions("views", VIEW).values() for schema, name in objects}
    rows = conn.execute(
        """select pronamespace::regnamespace::text, proname::text from pg_proc where pronamespace::regnamespace::text like 'headrace%'
           union
           select relnamespace::regnamespace::text, relname::text from pg_class
           where relkind = 'v' and relnamespace::regnamespace::text like 'headrace%'"""
    ).fetchall()
    assert set(rows) == files


def test_our_migration_creates_objects_in_our_schemas_only(conn: Connection) -> None:
    """Beside them there is pgmq, with the queues it created for us."""
    rows = conn.execute(
        """select distinct n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname !~ '^(pg_|information_schema|cron|partman)'
           union
           select n.nspname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
           where n.nspname !~ '^(pg_|information_schema|cron|partman)'"""
    ).fetchall()
    assert {str(row[0]) for row in rows} == SCHEMAS | {"pgmq"}


def test_no_public_function_shares_its_name(conn: Connection) -> None:
    """An overload would make calls with defaults ambiguous."""
    rows = conn.execute(
        """select proname from pg_proc where pronamespace = 'headrace'::regnamespace group by proname having count(*) > 1"""
    ).fetchall()
    assert rows == []
