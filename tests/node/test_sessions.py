"""Loops bring their own session; handlers see the session that their database gives them."""

from __future__ import annotations

import asyncio

import pytest
from psycopg.conninfo import make_conninfo

from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target, create_loop_pool
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
        conn.execute("select headrace.create_schedule('every', '* * * * * *', 'orders', 'placed')")
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
