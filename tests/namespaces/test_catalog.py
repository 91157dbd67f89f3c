"""What the catalog must say, so that no function or table is open by oversight."""

from __future__ import annotations

import psycopg
import pytest

from headrace.db import Connection, query

FUNCTIONS = "from pg_proc f where f.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)"
TABLES = "from pg_class c where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and c.relkind in ('r', 'p') and not c.relispartition"
OPEN_TO_PUBLIC = f"""
    select f.oid::regprocedure::text {FUNCTIONS}
        and (f.proacl is null or exists (select from aclexplode(f.proacl) a where a.grantee = 0))"""
UNPINNED = f"""
    select f.oid::regprocedure::text {FUNCTIONS} and f.prosecdef
        and not coalesce('search_path=pg_catalog, pg_temp' = any (f.proconfig), false)"""
UNGUARDED = f"""
    select c.relname {TABLES} and c.relrowsecurity <> exists (select from pg_policy p where p.polrelid = c.oid)"""
REACHABLE_WITHOUT_POLICY = f"""
    select c.relname {TABLES} and not c.relrowsecurity
        and exists (select from aclexplode(c.relacl) a where a.grantee <> c.relowner)"""
CLOSED = {"migration", "rule_shape", "rule_match"}
AS_OWNER = {"add_branch", "drop_branch", "topic_dropped"}
"""Functions that run with the owner's rights. Every further one is a decision: its header says why anybody may call it."""


def names(conn: Connection, text: str) -> list[str]:
    return sorted(str(row[0]) for row in conn.execute(text).fetchall())


def test_no_function_is_executable_by_public(conn: Connection) -> None:
    assert names(conn, OPEN_TO_PUBLIC) == []


def test_every_security_definer_function_pins_its_search_path(conn: Connection) -> None:
    assert names(conn, UNPINNED) == []


def test_functions_with_the_owners_rights_are_those_decided_on(conn: Connection) -> None:
    assert set(names(conn, f"select f.proname {FUNCTIONS} and f.prosecdef")) == AS_OWNER


def test_table_has_policies_exactly_when_row_level_security_is_on(conn: Connection) -> None:
    assert names(conn, UNGUARDED) == []


def test_every_table_is_guarded_or_closed(conn: Connection, sign_in: object) -> None:
    unguarded = names(conn, f"select c.relname {TABLES} and not c.relrowsecurity")
    assert set(unguarded) <= CLOSED
    assert names(conn, REACHABLE_WITHOUT_POLICY) == []


def test_every_view_looks_with_the_readers_eyes(conn: Connection) -> None:
    views = names(
        conn,
        """select relname from pg_class where relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and relkind = 'v'
               and not coalesce(reloptions @> '{security_invoker=true}', false)""",
    )
    assert views == []


def test_nobody_but_the_owner_reaches_a_partition_directly(conn: Connection, sign_in: object) -> None:
    text = """select relname from pg_class c where relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and relispartition
        and exists (select from aclexplode(c.relacl) a where a.grantee <> c.relowner)"""
    assert names(conn, text) == []


@pytest.mark.parametrize("level", ["publish", "consume", "admin"])
def test_level_may_call_what_its_functions_call(conn: Connection, level: str) -> None:
    """Also what the triggers of tables it writes to call. A helper that was forgotten would break the function for everybody
    but the owner. What runs as the owner is left out."""
    missing = names(
        conn,
        f"""select distinct f.proname || ' calls ' || called.name[1]
            from pg_proc f
            cross join lateral regexp_matches(f.prosrc, 'headrace[.]([a-z0-9_]+) ?[(]', 'g') called (name)
            where f.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and not f.prosecdef
                -- Its advice quotes a call.
                and f.proname <> 'raise_unknown_topic'
                and (f.proname in (select headrace_internal.level_functions('{level}'))
                    or f.oid in (select t.tgfoid from pg_trigger t
                        join headrace_internal.level_tables('{level}') w on to_regclass('headrace.' || w.relation) = t.tgrelid
                        where w.privileges not like 'select%'))
                and called.name[1] not in (select headrace_internal.level_functions('{level}'))
                and called.name[1] in (select p.proname from pg_proc p where p.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace))""",
    )
    assert missing == []


def test_securing_twice_changes_nothing(conn: Connection) -> None:
    before = names(conn, "select oid || polname from pg_policy")
    conn.execute(query("db/secure"))
    assert names(conn, "select oid || polname from pg_policy") == before


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        ("grant execute on function headrace.clock() to public", OPEN_TO_PUBLIC),
        ("alter function headrace_internal.drop_branch(integer) reset search_path", UNPINNED),
        ("alter table headrace_internal.log disable row level security", UNGUARDED),
        ("create table headrace.leak (x int); grant select on headrace.leak to public", REACHABLE_WITHOUT_POLICY),
    ],
)
def test_checks_find_a_seeded_hole(conn: Connection, bug: str, check: str) -> None:
    with conn.transaction():
        conn.execute(bug)
        assert names(conn, check) != []
        raise psycopg.Rollback
