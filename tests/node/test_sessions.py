"""Loops bring their own session; handlers see the session that their database gives them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from headrace.actions import Action
from headrace.core import LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, Target, connect, create_loop_pool
from headrace.node import Headrace
from tests.builders import publish, topic
from tests.node.test_containment import running, until

pytestmark = pytest.mark.lane("pg18")

DEFAULTS = {
    "search_path": "public, pg_catalog",
    "default_transaction_isolation": "repeatable read",
    "statement_timeout": "1s",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "jit": "on",
}


def set_defaults(conn: Connection) -> None:
    for name, value in DEFAULTS.items():
        value = value if name == "search_path" else f"'{value}'"
        conn.execute(f"alter database {conn.info.dbname} set {name} = {value}")


async def test_loop_ignores_the_defaults_of_the_database(conn: Connection, database: Target) -> None:
    set_defaults(conn)
    target = Target("main", make_conninfo(database.dsn, options="-c search_path=public -c lock_timeout=7s -c headrace.x=y"))
    pool = create_loop_pool(target, size=1)
    await pool.open()
    async with pool.connection() as session:
        values = {
            name: (await (await session.execute(f"show {name}")).fetchone())[0]  # type: ignore[index, arg-type]
            for name in (*DEFAULTS, "headrace.x")
        }
    await pool.close()
    assert values == {
        "search_path": "pg_catalog, pg_temp",
        "default_transaction_isolation": "read committed",
        "statement_timeout": "10min",
        "lock_timeout": "7s",  # The address may change a limit.
        "idle_in_transaction_session_timeout": "1min",
        "jit": "off",
        "headrace.x": "y",
    }


async def test_handler_sees_the_search_path_of_its_database(conn: Connection, database: Target) -> None:
    topic(conn)
    conn.execute("create schema shop; create table shop.bill (n int)")
    conn.execute(f"alter database {conn.info.dbname} set search_path = shop")
    app = Headrace()

    @app.consumer("orders")
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into bill values (1)")

    async with running(database, app):
        publish(conn, 1)
        await until(lambda: conn.execute("select count(*) from shop.bill").fetchone() == (1,))


PLANTED = """
    create function public.concat_ws(text, text, integer) returns text language plpgsql as $$
        begin alter role mallory superuser; return pg_catalog.concat_ws($1, $2, $3); exception when others then return ''; end $$;
    create function public.format(text, text) returns text language plpgsql as $$
        begin alter role mallory superuser; return pg_catalog.format($1, $2); exception when others then return ''; end $$;
    create function public.least(bigint, integer) returns bigint language plpgsql as $$
        begin alter role mallory superuser; return 1; exception when others then return 1; end $$;
    create function public.power_of(integer, bigint) returns double precision language plpgsql as $$
        begin alter role mallory superuser; return 1; exception when others then return 1; end $$;
    create function public.equal(integer, smallint) returns boolean language plpgsql as $$
        begin alter role mallory superuser; return pg_catalog.int42eq($1, $2); exception when others then return false; end $$;
    create operator public.= (leftarg = integer, rightarg = smallint, function = public.equal);
    create operator public.^ (leftarg = integer, rightarg = bigint, function = public.power_of);
"""


@pytest.mark.parametrize("search_path", ['"$user", public', "public, pg_catalog"])
async def test_function_planted_in_schema_public_is_not_called_by_a_superusers_node(
    conn: Connection, database: Target, search_path: str
) -> None:
    """The node, its handlers' sessions and its failures: none of them calls what mallory has created."""
    topic(conn)
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    conn.execute("drop role if exists mallory; create role mallory; grant create, usage on schema public to public")
    try:
        with conn.transaction():
            conn.execute("set local role mallory")
            conn.execute(PLANTED)
        conn.execute(f"alter database {conn.info.dbname} set search_path = {search_path}")
        conn.execute("insert into headrace.rule (rule, topic, event_type, action) values ('mail', 'orders', 'placed', 'MAIL')")
        conn.execute(
            "insert into headrace.schedule (schedule, cron, topic, type) values ('every', '* * * * * *', 'orders', 'placed')"
        )
        app = Headrace()
        handled: list[object] = []

        @app.consumer("orders")
        async def note(event: LoggedEvent, tx: AsyncConnection) -> None:
            handled.append(event.payload)

        async with running(database, app):
            await until(lambda: conn.execute("select bool_and(status = 'valid') from headrace.rule").fetchone() == (True,))
            await asyncio.to_thread(publish, conn, 1)
            await until(lambda: len(handled) >= 2)
            await until(lambda: conn.execute("select count(*) > 1 from headrace.firing").fetchone() == (True,))
        assert conn.execute("select rolsuper from pg_roles where rolname = 'mallory'").fetchone() == (False,)
    finally:
        conn.execute("drop owned by mallory cascade; drop role mallory")


def test_functions_called_on_a_handlers_connection_bring_their_own_search_path(conn: Connection) -> None:
    called = [
        "claim",
        "hold_back",
        "advance",
        "fail",
        "claim_redrive",
        "end_redrive",
        "ack_actions",
        "create_consumer",
        "topic_id",
    ]
    rows = conn.execute(
        """select p.proname from pg_proc p
           where p.pronamespace = 'headrace'::regnamespace and p.proname = any (%s)
               and p.prosecdef and 'search_path=pg_catalog, pg_temp' = any (p.proconfig)""",
        (called,),
    ).fetchall()
    assert sorted(name for (name,) in rows) == sorted(called)


def is_compiling(pid: int) -> bool:
    """PostgreSQL loads its compiler into a session when the first query of the session is compiled."""
    return "llvmjit" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


@pytest.mark.lane("pg15")
async def test_no_session_of_a_node_compiles_its_queries(conn: Connection, database: Target) -> None:
    """The server's default: `enable_seqscan = off` in a function gives a plan a cost at which PostgreSQL 15 compiles it."""
    conn.execute(f"alter database {conn.info.dbname} set jit = on")
    topic(conn)
    with connect(database) as ordinary:
        ordinary.execute("set jit_above_cost = 0; select count(*) from pg_class where relname > 'a'")
        assert is_compiling(ordinary.info.backend_pid), "this server has no compiler"
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    conn.execute("insert into headrace.rule (rule, topic, event_type, action) values ('mail', 'orders', 'placed', 'MAIL')")
    outputs = {"pair": ActionOutput(action="MAIL")}
    create_correlator(
        conn, Correlator(name="pair", topic="orders", pattern="push(pair) {sequential {placed, placed}}", outputs=outputs)
    )
    app = Headrace()
    handled: list[Action] = []

    @app.consumer("orders", where="object::int > 0")
    async def note(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    @app.handler("MAIL")
    async def mail(action: Action, tx: AsyncConnection) -> None:
        handled.append(action)

    async with running(database, app):
        for n in range(1, 4):
            await asyncio.to_thread(publish, conn, n)
            await until(lambda n=n: len(handled) >= n, timeout_s=60)  # type: ignore[misc]
        sessions = conn.execute(
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        ).fetchall()
        assert [pid for (pid,) in sessions if is_compiling(pid)] == []
        assert sessions


def test_function_that_forbids_a_plan_also_forbids_its_compilation(conn: Connection) -> None:
    """A forbidden plan that is used all the same has a cost of 1e10, and passes jit_above_cost."""
    rows = conn.execute(
        """select p.oid::regprocedure::text from pg_proc p
           where p.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
               and exists (select from unnest(p.proconfig) setting where setting like 'enable%=off')
               and 'jit=off' <> all (p.proconfig)
           order by 1"""
    ).fetchall()
    assert [name for (name,) in rows] == []
