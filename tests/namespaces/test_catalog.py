"""What the catalog must say, so that no function or table is open by oversight."""

from __future__ import annotations

import psycopg
import pytest

from headrace.db import Connection, query
from headrace.namespaces import Level
from tests.namespaces.conftest import SignIn

LEVELS: list[Level] = ["publish", "consume", "admin"]
OURS = "in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)"
FUNCTIONS = f"from pg_proc f where f.pronamespace {OURS}"
TABLES = f"from pg_class c where c.relnamespace {OURS} and c.relkind in ('r', 'p') and not c.relispartition"
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
INTERNAL_IS_OPEN = """
    select coalesce(r.rolname, 'public') from pg_namespace n cross join lateral aclexplode(n.nspacl) a
    left join pg_roles r on r.oid = a.grantee
    where n.nspname = 'headrace_internal' and a.grantee <> n.nspowner"""
# What a level may call: it checks the caller's level and runs as the owner, or it names nothing internal.
# A trigger function has no caller of its own: PostgreSQL calls it for a row that may be written.
UNCHECKED = f"""
    select distinct f.oid::regprocedure::text
    from unnest('{{publish,consume,admin}}'::text[]) l (level)
    cross join lateral headrace_internal.level_functions(l.level) n (name)
    join pg_proc f on f.pronamespace {OURS} and f.proname = n.name
    where f.proname <> 'publish' and case when f.prosecdef
        then f.prosrc !~ 'headrace_internal\\.(authorize|authorize_id|holds_level)\\(p_caller, '
            or f.proargtypes[f.pronargs - 1] <> 'headrace_internal.caller'::regtype
        else regexp_replace(f.prosrc, '--[^\n]*|''headrace_internal''::regnamespace', '', 'g') ~ 'headrace_internal'
            and f.proname <> 'copy_route' end"""
CLOSED = {"migration", "rule_shape", "rule_match", "topic_border", "queue", "spark_batch"}


def names(conn: Connection, text: str) -> list[str]:
    return sorted(str(row[0]) for row in conn.execute(text).fetchall())


def test_no_function_is_executable_by_public(conn: Connection) -> None:
    assert names(conn, OPEN_TO_PUBLIC) == []


def test_every_security_definer_function_pins_its_search_path(conn: Connection) -> None:
    assert names(conn, UNPINNED) == []


def test_what_a_level_calls_checks_the_level_or_names_nothing_internal(conn: Connection) -> None:
    """publish and copy_route leave first when the caller has no usage on the internal schema."""
    assert names(conn, UNCHECKED) == []
    for function in ("publish", "copy_route"):
        source = conn.execute("select prosrc from pg_proc where proname = %s and not prosecdef", (function,)).fetchone()
        assert source is not None
        gate, _, rest = str(source[0]).partition("if not has_schema_privilege('headrace_internal', 'usage')")
        assert "headrace_internal" in rest and "headrace_internal" not in gate, function


@pytest.mark.parametrize("level", LEVELS)
def test_no_level_reaches_the_internal_schema(owner_conn: Connection, sign_in: SignIn, level: Level) -> None:
    role = sign_in(a=level)
    allowed = "select has_schema_privilege(%s, 'headrace', 'usage'), has_schema_privilege(%s, 'headrace_internal', 'usage')"
    assert owner_conn.execute(allowed, (role.info.user, role.info.user)).fetchone() == (True, False)
    assert names(owner_conn, INTERNAL_IS_OPEN) == []


@pytest.mark.parametrize(
    "caller", ["'postgres'", "'postgres'::name", "null", "(select rolname from pg_roles where rolsuper limit 1)"]
)
def test_nobody_names_another_caller(sign_in: SignIn, caller: str) -> None:
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.NotNullViolation)):
        sign_in(a="admin").execute(f"select headrace.topic_id('orders', 'b', p_caller => {caller})")


def test_function_that_runs_in_a_superusers_session_has_its_owners_rights(owner_conn: Connection, sign_in: SignIn) -> None:
    """ANALYZE evaluates an index expression as the table's owner: session_user is then a superuser, who did not write it."""
    role = sign_in(a="admin")
    owner_conn.execute(f"create schema authorization {role.info.user}; delete from headrace.schedule where namespace = 'b'")
    role.execute(
        f"""create function {role.info.user}.escalate(int) returns int language plpgsql immutable as $$
            begin
                if session_user = 'postgres' then
                    perform headrace.drop_topic('orders', true, 'b');
                end if;
                return $1;
            end $$;
            create table {role.info.user}.bait as select 1 as x;
            create index on {role.info.user}.bait ({role.info.user}.escalate(x));"""
    )
    with pytest.raises(psycopg.Error) as error:
        owner_conn.execute(f"analyze {role.info.user}.bait")
    assert error.value.sqlstate == "HR101"


def test_table_has_policies_exactly_when_row_level_security_is_on(conn: Connection) -> None:
    assert names(conn, UNGUARDED) == []


def test_every_table_is_guarded_or_closed(conn: Connection, sign_in: object) -> None:
    assert set(names(conn, f"select c.relname {TABLES} and not c.relrowsecurity")) == CLOSED
    assert names(conn, REACHABLE_WITHOUT_POLICY) == []


def test_every_view_runs_with_the_readers_rights(conn: Connection) -> None:
    views = names(
        conn,
        f"""select relname from pg_class where relnamespace {OURS} and relkind = 'v'
               and not coalesce(reloptions @> '{{security_invoker=true}}', false)""",
    )
    assert views == []


def test_nobody_but_the_owner_reaches_a_partition_directly(conn: Connection, sign_in: object) -> None:
    text = f"""select relname from pg_class c where relnamespace {OURS} and relispartition
        and exists (select from aclexplode(c.relacl) a where a.grantee <> c.relowner)"""
    assert names(conn, text) == []


def test_securing_twice_changes_nothing(conn: Connection) -> None:
    before = names(conn, "select oid || polname from pg_policy")
    conn.execute(query("db/secure"))
    assert names(conn, "select oid || polname from pg_policy") == before


UNCHECKED_CLAIM = """
create or replace function headrace.resume(p_topic text, p_consumer text, p_namespace text default null,
    p_caller headrace_internal.caller default current_user) returns integer
language sql security definer set search_path = pg_catalog, pg_temp as 'select 1'"""


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        ("grant execute on function headrace.clock() to public", OPEN_TO_PUBLIC),
        ("alter function headrace_internal.topic_created() reset search_path", UNPINNED),
        ("alter table headrace.log disable row level security", UNGUARDED),
        ("create table headrace.leak (x int); grant select on headrace.leak to public", REACHABLE_WITHOUT_POLICY),
        ("grant usage on schema headrace_internal to public", INTERNAL_IS_OPEN),
        (UNCHECKED_CLAIM, UNCHECKED),
        (
            "create or replace function headrace.clock() returns timestamptz language sql stable "
            "as 'select max(applied_at) from headrace_internal.migration'",
            UNCHECKED,
        ),
    ],
)
def test_checks_find_a_seeded_hole(conn: Connection, bug: str, check: str) -> None:
    with conn.transaction():
        conn.execute(bug)
        assert names(conn, check) != []
        raise psycopg.Rollback
