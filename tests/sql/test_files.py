"""SQL files: every room has its own; every function and view has a header, and the header says what it calls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace
from headrace.db import Connection, query
from headrace.db.sql_files import ROOMS, sql_files
from tests.sql.objects import SqlObject, calls_of, functions, views

SCHEMAS = {"headrace", "headrace_internal"}

pytestmark = pytest.mark.lane("pg18")


def test_every_room_with_sql_is_listed_once() -> None:
    package = Path(headrace.__file__).parent
    folders = {folder.parent.relative_to(package).as_posix() for folder in package.rglob("sql") if folder.is_dir()}
    assert folders == set(ROOMS) and len(folders) == len(ROOMS)


def test_every_sql_file_is_of_a_known_kind() -> None:
    package = Path(headrace.__file__).parent
    kinds = ("functions", "migrations", "queries", "tables", "views")
    loaded = {name for kind in kinds for name, _ in sql_files(kind)}  # type: ignore[arg-type]
    paths = {path.relative_to(package).with_suffix("").as_posix() for path in package.rglob("*.sql")}
    assert {path.replace("/sql/", "/") for path in paths} == loaded


def test_every_function_and_view_has_a_header_and_is_of_our_schemas() -> None:
    assert [found.name for found in [*functions(), *views()] if not found.header or found.schema not in SCHEMAS] == []


def test_no_file_of_functions_is_too_long() -> None:
    assert {name: text.count("\n") for name, text in sql_files("functions") if text.count("\n") > 500} == {}


def test_header_names_the_functions_that_the_body_calls() -> None:
    known = {function.name for function in functions()}
    stated = {function.name: function.stated_calls for function in functions()}
    assert stated == {function.name: calls_of(function, known) for function in functions()}


def test_wrong_header_is_noticed() -> None:
    """A call in a default, in a comment or in the text of an error is none."""
    text = """-- Does it.
-- Calls: first,
-- second.
create or replace function headrace.third(p_id uuid default headrace.fourth()) returns void
language plpgsql volatile
as $$
begin
    -- As headrace.fifth() does.
    perform headrace.second(headrace_internal.first(headrace.clock()));
    raise exception 'no' using hint = 'Call: select headrace.fourth().';
end
$$;
"""
    function = SqlObject.from_text("log/functions/things", text)
    known = {"first", "second", "third", "fourth", "fifth", "clock"}
    assert function.stated_calls == {"first", "second"} == calls_of(function, known)


def test_function_stands_behind_those_of_its_file_that_it_calls() -> None:
    """Two functions that call each other stand in either order."""
    place = {function.name: (function.file, number) for number, function in enumerate(functions())}
    calls = {function.name: function.stated_calls for function in functions()}

    def reaches(name: str, goal: str, passed: frozenset[str] = frozenset()) -> bool:
        return any(call == goal or (call not in passed and reaches(call, goal, passed | {call})) for call in calls[name])

    early = [
        (name, call)
        for name, called in calls.items()
        for call in called
        if place[call][0] == place[name][0] and place[call][1] > place[name][1] and not reaches(call, name)
    ]
    assert early == []


@pytest.mark.parametrize("name", ["claim_actions", "ack_actions"])
def test_statement_for_the_default_queue_is_the_one_for_other_queues(name: str) -> None:
    """It is written twice, so that PL/pgSQL plans it once per session for the default queue."""
    [function] = [function for function in functions() if function.name == name]
    [dynamic] = re.findall(r"\$sql\$(.*?)\$sql\$", function.text, re.DOTALL)
    assert f"{dynamic.replace('%1$I', 'q_hr_default')};" in function.text


def test_no_function_is_made_by_replacing_text() -> None:
    maker = re.compile(r"execute\s+(?:pg_catalog\.)?replace\(|pg_get_functiondef")
    assert [function.name for function in functions() if maker.search(function.text)] == []


def test_files_define_the_functions_and_views_of_the_database(conn: Connection) -> None:
    rows = conn.execute(
        """select pronamespace::regnamespace::text, proname::text from pg_proc where pronamespace::regnamespace::text like 'headrace%'
           union all
           select relnamespace::regnamespace::text, relname::text from pg_class
           where relkind = 'v' and relnamespace::regnamespace::text like 'headrace%'"""
    ).fetchall()
    assert sorted(rows) == sorted((found.schema, found.name) for found in [*functions(), *views()])


def test_file_has_nothing_but_named_statements() -> None:
    for name, text in sql_files("queries"):
        assert text.startswith("-- name: "), name
        names = re.findall(r"^-- name: (.*)$", text, re.MULTILINE)
        assert names == sorted(set(names)), f"{name}: a name comes twice, or names are not in order"
        assert [statement for statement in names if not query(f"{name.removesuffix('/queries')}/{statement}").strip()] == []


def test_python_names_only_statements_that_exist_and_all_of_them() -> None:
    """A few names are put together: `f"prove/{name}"`, `f"rules/{template}_join"`, or a check of doctor with spaces."""
    python = "\n".join(path.read_text() for path in Path(headrace.__file__).parent.rglob("*.py"))
    assert [query(name) for name in re.findall(r'\bquery\("([^"{]+)"', python)]
    ends = set(re.findall(r'["/}]([a-z_ ]+)"', python))
    statements = re.findall(r"^-- name: (.*)$", "\n".join(text for _, text in sql_files("queries")), re.MULTILINE)
    assert [name for name in statements if ends.isdisjoint({name, name.replace("_", " "), f"_{name.rpartition('_')[2]}"})] == []


def test_unknown_statement_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r'no statement "nothing" in node/sql/queries\.sql, which has nodes'):
        query("node/nothing")
    with pytest.raises(LookupError, match=r'no statement "x" in nowhere/sql/queries\.sql, which has no statements'):
        query("nowhere/x")


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
