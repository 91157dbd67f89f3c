"""What the catalog must say, so that no function or table is open by oversight."""

from __future__ import annotations

import psycopg
import pytest

from headrace.db import Connection, Level
from tests.db.namespaces.conftest import SignIn
from tests.db.namespaces.rights import expected_rights

LEVELS: list[Level] = ["publish", "consume", "work", "admin"]
OURS = "in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)"
FUNCTIONS = f"from pg_proc f where f.pronamespace {OURS}"
OPEN_TO_PUBLIC = f"""
    select f.oid::regprocedure::text {FUNCTIONS}
        and (f.proacl is null or exists (select from aclexplode(f.proacl) a where a.grantee = 0))"""
UNPINNED = f"""
    select f.oid::regprocedure::text {FUNCTIONS} and f.prosecdef
        and not coalesce('search_path=pg_catalog, pg_temp' = any (f.proconfig), false)"""
INTERNAL_IS_OPEN = """
    select coalesce(r.rolname, 'public') from pg_namespace n cross join lateral aclexplode(n.nspacl) a
    left join pg_roles r on r.oid = a.grantee
    where n.nspname = 'headrace_internal' and a.grantee <> n.nspowner"""
# What a level may call: it checks the caller's level and runs as the owner, or it names nothing internal.
# log_epoch and schema_release show nothing of a namespace. wake_sequencer runs with the caller's rights, inside views that only roles
# above namespaces get through. A trigger function has no caller of its own: PostgreSQL calls it for a row that may be written.
# Declarations apart, the first thing of ours that the body of a checked function names is a function that raises for a missing level and for a null caller;
# no condition and no loop stands before it. admit_event has the check in the statement that reads the topic, and publish_rows returns before
# it for a table that is not captured any more, which anybody may write.
DOOR = "headrace_internal\\.(authorize|authorize_id|authorized_namespaces|above_namespaces)\\(p_caller\\M"
BODY = "regexp_replace(f.prosrc, '--[^\n]*|\\mv_\\w+\\s+headrace(_internal)?\\.\\w+', '', 'g')"
UNCHECKED = f"""
    select distinct f.oid::regprocedure::text
    from unnest('{{publish,consume,work,admin}}'::text[]) l (level)
    cross join lateral headrace_internal.level_functions(l.level) n (name)
    join pg_proc f on f.pronamespace {OURS} and f.proname = n.name
    where f.proname not in ('publish', 'log_epoch', 'schema_release', 'wake_sequencer') and case when f.prosecdef
        then f.proargtypes[f.pronargs - 1] <> 'headrace_internal.caller'::regtype
        else regexp_replace(f.prosrc, '--[^\n]*|''headrace_internal''::regnamespace', '', 'g') ~ 'headrace_internal'
            and f.proname <> 'copy_route' end
    union
    select f.oid::regprocedure::text {FUNCTIONS} and 'headrace_internal.caller'::regtype = any (f.proargtypes)
        and f.proname not in ('admit_event', 'publish_rows')
        and ({BODY} ~ '^((?!headrace|\\mif\\M|\\mloop\\M).)*{DOOR}') is not true
    union
    select f.oid::regprocedure::text {FUNCTIONS} and 'headrace_internal.caller'::regtype = any (f.proargtypes)
        and {BODY} ~ '\\mnot +(headrace_internal\\.holds_level|headrace_internal\\.above_namespaces|has_\\w+_privilege|pg_has_role)\\('"""
# Every right of a role on a function, view, table, sequence or schema of ours or of the queue.
RIGHTS = """
    select coalesce(r.rolname, 'public'), o.name, lower(a.privilege_type)
    from (
        select case when c.relkind = 'v' then 'view ' else 'table ' end || c.oid::regclass::text as name, c.relacl as acl, c.relowner as owner
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind in ('r', 'p', 'v', 'm', 'S')
        union all
        select c.oid::regclass || '.' || t.attname, t.attacl, c.relowner
        from pg_attribute t join pg_class c on c.oid = t.attrelid join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('headrace', 'headrace_internal', 'pgmq')
        union all
        select 'function ' || n.nspname || '.' || f.proname, f.proacl, f.proowner
        from pg_proc f join pg_namespace n on n.oid = f.pronamespace where n.nspname in ('headrace', 'headrace_internal')
        union all
        select 'schema ' || n.nspname, n.nspacl, n.nspowner
        from pg_namespace n where n.nspname in ('headrace', 'headrace_internal', 'pgmq')
    ) o
    cross join lateral aclexplode(o.acl) a
    left join pg_roles r on r.oid = a.grantee
    where a.grantee <> o.owner"""


LEAKED_TABLE = f"select right_.name from ({RIGHTS}) right_ (role, name, privilege) where right_.name like 'table headrace%'"


def names(conn: Connection, text: str) -> list[str]:
    return sorted(str(row[0]) for row in conn.execute(text).fetchall())


def test_no_function_is_executable_by_public(conn: Connection) -> None:
    assert names(conn, OPEN_TO_PUBLIC) == []


def test_every_security_definer_function_pins_its_search_path(conn: Connection) -> None:
    assert names(conn, UNPINNED) == []


def test_what_a_level_calls_checks_the_level_or_names_nothing_internal(conn: Connection) -> None:
    """publish and copy_route ask first whether the caller has usage on the internal schema."""
    assert names(conn, UNCHECKED) == []
    row = conn.execute("select prosrc from pg_proc where proname = 'copy_route' and not prosecdef").fetchone()
    assert row is not None
    before, _, rest = " ".join(str(row[0]).split()).partition(
        "if not pg_catalog.has_schema_privilege('headrace_internal', 'usage') or "
    )
    assert "headrace_internal" in rest
    assert "headrace_internal" not in before
    row = conn.execute(
        "select pg_get_function_arguments(oid) from pg_proc where proname = 'publish' and not prosecdef"
    ).fetchone()
    assert row is not None
    assert "CASE WHEN has_schema_privilege('headrace_internal'::text, 'usage'::text) THEN headrace.outbox_slot() " in str(row[0])


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


@pytest.mark.parametrize("level", LEVELS)
def test_level_has_exactly_the_rights_on_the_list(owner_conn: Connection, sign_in: SignIn, level: Level) -> None:
    """The list is written by hand: a right that a change of the code adds must be added there too, by somebody who means it."""
    role = sign_in(a=level).info.user
    rights = {(name, right) for grantee, name, right in owner_conn.execute(RIGHTS).fetchall() if grantee == role}
    expected = expected_rights(level)
    assert rights == expected, (sorted(rights - expected), sorted(expected - rights))


def test_nobody_else_has_a_right(owner_conn: Connection, sign_in: SignIn) -> None:
    roles = {sign_in(a=level).info.user for level in LEVELS}
    assert {grantee for grantee, name, _ in owner_conn.execute(RIGHTS).fetchall() if "pgmq" not in name} == roles


def test_no_level_has_a_right_on_a_table(owner_conn: Connection, sign_in: SignIn) -> None:
    """Nor on a sequence but the one that numbers the outbox."""
    roles = {sign_in(a=level).info.user for level in LEVELS}
    rows = owner_conn.execute(RIGHTS).fetchall()
    tables = [
        row for row in rows if row[0] in roles and not row[1].startswith(("function ", "view ", "schema headrace", "headrace."))
    ]
    assert {row[1:] for row in tables} == {("table headrace_internal.outbox_id_seq", "usage")}


def test_node_role_is_not_the_owner(owner_conn: Connection, sign_in: SignIn) -> None:
    """It runs everything, and creates, drops and grants nothing."""
    role = sign_in()
    owner_conn.execute("select headrace.grant_node(%s)", (role.info.user,))
    for statement in (
        "create table headrace_internal.mine (x int)",
        "drop table headrace_internal.topic cascade",
        "truncate headrace_internal.log",
        "select headrace.grant_namespace(current_user, 'a', 'admin')",
        "select headrace.grant_node(current_user)",
        "insert into headrace_internal.namespace_grant (role, namespace, level) values (current_user::regrole, 'a', 'admin')",
        "delete from headrace_internal.migration",
        "create function headrace_internal.mine() returns int language sql as 'select 1'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            role.execute(statement)
    owner_conn.execute("select headrace.revoke_node(%s)", (role.info.user,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute("select from headrace_internal.topic")


def test_revoked_node_keeps_no_right_on_a_partition(owner_conn: Connection, sign_in: SignIn) -> None:
    """A view that it has created as a node asks only for the right on the table, and not for usage on the schema."""
    role = sign_in(a="publish")
    name = role.info.user
    owner_conn.execute("select headrace.grant_node(%s)", (name,))
    owner_conn.execute(f"create schema authorization {name}")
    role.execute(f"create view {name}.waiting as select * from headrace_internal.outbox_0")
    owner_conn.execute("select headrace.revoke_node(%s)", (name,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute(f"select from {name}.waiting")
    rights = {(right[1], right[2]) for right in owner_conn.execute(RIGHTS).fetchall() if right[0] == name}
    assert rights == expected_rights("publish")


def test_nobody_but_the_owner_reaches_a_partition_directly(conn: Connection, sign_in: object) -> None:
    text = f"""select relname from pg_class c where relnamespace {OURS} and relispartition
        and exists (select from aclexplode(c.relacl) a where a.grantee <> c.relowner)"""
    assert names(conn, text) == []


def test_securing_again_restores_what_somebody_granted(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="publish").info.user
    before = set(owner_conn.execute(RIGHTS).fetchall())
    owner_conn.execute(f"grant all on headrace_internal.log, headrace.log to {role}")
    owner_conn.execute(
        f"grant execute on all functions in schema headrace to public; grant usage on schema headrace_internal to {role}"
    )
    assert set(owner_conn.execute(RIGHTS).fetchall()) != before
    owner_conn.execute("select headrace_internal.secure()")
    assert set(owner_conn.execute(RIGHTS).fetchall()) == before


UNCHECKED_CLAIM = """
create or replace function headrace.resume(p_kind text, p_name text default '', p_namespace text default null,
    p_caller headrace_internal.caller default current_user) returns integer
language sql security definer set search_path = pg_catalog, pg_temp as 'select 1'"""
CHECKED_TOO_LATE = """
create or replace function headrace.resume(p_kind text, p_name text default '', p_namespace text default null,
    p_caller headrace_internal.caller default current_user) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_kind = 'queue' then
        perform headrace_internal.authorize(p_caller, 'work', p_namespace);
    end if;
    return 1;
end $$"""
CHECK_THAT_NULL_PASSES = """
create or replace function headrace.resume(p_kind text, p_name text default '', p_namespace text default null,
    p_caller headrace_internal.caller default current_user) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform headrace_internal.above_namespaces(p_caller);
    if not headrace_internal.holds_level(p_caller, 'work', p_namespace) then
        return 0;
    end if;
    return 1;
end $$"""


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        ("grant execute on function headrace.clock() to public", OPEN_TO_PUBLIC),
        ("alter function headrace_internal.attach_log(integer) reset search_path", UNPINNED),
        ("create table headrace.leak (x int); grant select on headrace.leak to public", LEAKED_TABLE),
        ("grant usage on schema headrace_internal to public", INTERNAL_IS_OPEN),
        (UNCHECKED_CLAIM, UNCHECKED),
        (CHECKED_TOO_LATE, UNCHECKED),
        (CHECK_THAT_NULL_PASSES, UNCHECKED),
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
