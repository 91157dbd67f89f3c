"""No function of ours calls a function that somebody else has put into a schema of the session's search path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
import psycopg.sql

from headrace.db import Connection
from tests.builders import drain, topic

FUNCTIONS = """
    select n.nspname || '.' || f.proname as name, f.prosrc as body, f.prorettype = 'trigger'::regtype as is_trigger
    from pg_proc f join pg_namespace n on n.oid = f.pronamespace
    where n.nspname in ('headrace', 'headrace_internal') and f.prokind = 'f' and f.prosqlbody is null
        and coalesce(array_to_string(f.proconfig, ' '), '') !~ 'search_path'"""
VIEWS = "select pg_get_viewdef(oid) from pg_class where relkind = 'v' and relnamespace::regnamespace::text like 'headrace%'"
BUILT_IN = "select distinct proname::text from pg_proc where pronamespace = 'pg_catalog'::regnamespace"
CALL = re.compile(r"(?<![\w.%\":])([a-z_][a-z0-9_]*)\(")
OURS = re.compile(r"headrace(?:_internal)?\.\w+(?=\s*\()")
SPECIAL = {"extract", "overlay", "substring"}
"""PostgreSQL looks these up in pg_catalog when they are written with keywords, such as `extract(epoch from …)`."""


@dataclass(frozen=True)
class Function:
    name: str
    body: str
    is_trigger: bool


def reached_by_sessions(functions: Iterable[Function], views: str) -> list[Function]:
    """Functions without a pinned path that a session can reach: public ones, triggers, what views call, and what all of these call."""
    unpinned = {function.name: function for function in functions}
    waiting = {f.name for f in unpinned.values() if f.name.startswith("headrace.") or f.is_trigger} | set(OURS.findall(views))
    reached: dict[str, Function] = {}
    while waiting:
        name = waiting.pop()
        if name in unpinned and name not in reached:
            reached[name] = unpinned[name]
            waiting |= set(OURS.findall(unpinned[name].body))
    return [reached[name] for name in sorted(reached)]


def unqualified_calls(conn: Connection) -> dict[str, list[str]]:
    functions = [Function(*row) for row in conn.execute(FUNCTIONS).fetchall()]
    built_in = {row[0] for row in conn.execute(BUILT_IN).fetchall()}
    views = " ".join(row[0] for row in conn.execute(VIEWS).fetchall())
    found = {
        f.name: sorted(set(CALL.findall(re.sub(r"--[^\n]*", "", f.body))) & built_in - SPECIAL)
        for f in reached_by_sessions(functions, views)
    }
    return {name: calls for name, calls in found.items() if calls}


def test_function_without_a_pinned_path_qualifies_its_calls(conn: Connection) -> None:
    assert unqualified_calls(conn) == {}


def test_unqualified_call_is_found(conn: Connection) -> None:
    conn.execute(
        """create or replace function headrace.outbox_slot(p_at timestamptz default statement_timestamp()) returns integer
           language sql stable as 'select abs(1)'"""
    )
    assert unqualified_calls(conn) == {"headrace.outbox_slot": ["abs"]}


PLANTED = [
    ("concat", "text, text, jsonb, text, text", "text"),
    ("octet_length", "jsonb", "integer"),
    ("set_bit", "bytea, integer, integer", "bytea"),
    ("to_jsonb", "public.bait", "jsonb"),
    ("to_jsonb", "headrace.rule", "jsonb"),
    ("jsonb_populate_record", "headrace.rule, jsonb", "headrace.rule"),
    ("format", "text, text", "text"),
    ("format", "text, text, text", "text"),
    ("date_part", "text, timestamptz", "double precision"),
]
TYPES = """boolean smallint integer bigint numeric double_precision text name uuid jsonb timestamptz interval bytea regclass
text[] integer[] bigint[] uuid[] jsonb[]"""
OPERATORS = """
do $$
declare
    v_pair record;
begin
    for v_pair in
        select l.type as left_type, r.type as right_type, array_agg(o.oprname) as names
        from unnest(%s::regtype[]) l (type)
        cross join unnest(%s::regtype[]) r (type)
        cross join (select distinct k.oprname from pg_operator k where k.oprkind = 'b' and k.oprnamespace = 'pg_catalog'::regnamespace) o
        where not exists (select from pg_operator k where k.oprname = o.oprname and k.oprleft = l.type and k.oprright = r.type)
        group by 1, 2
    loop
        execute format('create function public.stranger(%%1$s, %%2$s) returns boolean language plpgsql as '
            '$body$ begin raise exception ''a stranger was called: %%1$s and %%2$s''; end $body$', v_pair.left_type, v_pair.right_type);
        for i in 1 .. cardinality(v_pair.names) loop
            execute format('create operator public.%%s (leftarg = %%s, rightarg = %%s, function = public.stranger)',
                v_pair.names[i], v_pair.left_type, v_pair.right_type);
        end loop;
    end loop;
end $$"""
"""Every operator of pg_catalog for every pair of types for which pg_catalog does not have it: there it would look for the best match."""


def plant(conn: Connection) -> None:
    """Better matches than those of pg_catalog, each of which raises an error when it is called."""
    for name, parameters, result in PLANTED:
        conn.execute(
            f"""create function public.{name}({parameters}) returns {result}
                language plpgsql as $$ begin raise exception 'a stranger was called: {name}'; end $$"""
        )
    types = psycopg.sql.Literal([type_.replace("_", " ") for type_ in TYPES.split()]).as_string(conn)
    conn.execute(OPERATORS % (types, types))


def test_functions_planted_in_the_search_path_are_not_called(conn: Connection) -> None:
    """As a superuser with the ordinary search path, by plain SQL."""
    topic(conn)
    conn.execute("create table public.bait (id int primary key, name text)")
    plant(conn)
    conn.execute("set search_path = public")
    # Two of three are for a topic that is asleep, whose publisher wakes the sequencer.
    conn.execute("select headrace.publish('orders', 'placed', '{}', p_key => 'k', p_producer => 'p')")
    conn.execute(
        "insert into headrace.event_0 (topic, type, event_id, payload) values ('orders', 'placed', gen_random_uuid(), '{}')"
    )
    conn.execute("update headrace_internal.topic set asleep = false")
    conn.execute("select headrace.publish('orders', 'placed', to_jsonb(repeat('1', 400)), p_headers => '{\"a\": 1}')")
    conn.execute("select headrace.uuid_v7(), headrace.clock(), headrace.copy_route('{orders}')")
    conn.execute("select headrace.capture('public.bait', 'orders')")
    conn.execute("insert into public.bait values (1, 'x'); update public.bait set name = 'y'; delete from public.bait")
    conn.execute("insert into headrace.rule (rule, topic, event_type, action) values ('r', 'orders', 'placed', 'A')")
    conn.execute("update headrace.rule set priority = 2; delete from headrace.rule")
    conn.execute("create role planted_reader; select headrace.grant_namespace('planted_reader', 'default', 'admin')")
    conn.execute("select headrace.revoke_namespace('planted_reader', 'default'); drop role planted_reader")
    conn.execute("select headrace.create_namespace('n'); select headrace.drop_namespace('n'); select headrace.maintain_log()")
    assert drain(conn) == 6
