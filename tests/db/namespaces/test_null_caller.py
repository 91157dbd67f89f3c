"""A null of the type of p_caller passes the checks of its domain; no function takes it for a caller."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from headrace.db import Connection
from headrace.prove.attacker import Identifiers, TypedParameter, known_identifiers, send_typed, typed_null
from headrace.web.http import create_access_token, create_hook
from tests.db.namespaces.conftest import SignIn
from tests.db.namespaces.test_isolation import snapshot

WITH_CALLER = """
    select f.pronamespace::regnamespace::text, f.proname, f.proargnames[:f.pronargs - 1],
        array(select format_type(a.oid, null) from unnest(f.proargtypes) with ordinality a (oid, place) order by a.place)
    from pg_proc f
    where f.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
        and f.proargtypes[f.pronargs - 1] = 'headrace_internal.caller'::regtype
    order by 1, 2"""
# These look at other parameters before they check the caller.
VALID = {
    "pause": {"p_kind": "queue"},
    "resume": {"p_kind": "queue"},
    "admit_event": {"p_type": "placed", "p_payload": "1"},
    "publish_rows": {"p_table": "public.captured", "p_operation": "insert", "p_new_rows": '{"{\\"id\\": 2}"}'},
}


def call(role: Connection, caller_oid: int, function: sql.Identifier, values: dict[str, sql.Composable]) -> None:
    arguments = [sql.SQL("{} => {}").format(sql.Identifier(name), value) for name, value in values.items()]
    arguments.append(sql.SQL("p_caller => {}").format(typed_null(1)))
    text = sql.SQL("select * from {}({})").format(function, sql.SQL(", ").join(arguments))
    send_typed(role, text, [TypedParameter(role.info.user, caller_oid)])


def argument(known: Identifiers, function: str, name: str, type_: str) -> sql.Composable:
    """What is known of the other namespace; a null where nothing is."""
    guesses = () if type_.endswith("[]") else known.by_column.get(name.removeprefix("p_"), ())
    value = VALID.get(function, {}).get(name) or next(iter(guesses), None)
    # A function of any type reads definitions: those of rules.
    type_ = {"anyelement": "headrace_internal.rule"}.get(type_, type_)
    return sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(type_))  # type: ignore[arg-type]


def test_every_function_refuses_a_null_caller(owner_conn: Connection, sign_in: SignIn) -> None:
    owner_conn.execute("create table public.captured (id int primary key)")
    owner_conn.execute("select headrace.capture('public.captured', 'orders', p_namespace => 'b')")
    create_access_token(owner_conn, "mailer", ["publish"], namespace="b")
    create_hook(owner_conn, "mailer", "orders", "github", ["env:B"], namespace="b")
    role = sign_in(a="admin")
    # Without it the role could not name the functions behind the views.
    owner_conn.execute(f"grant usage on schema headrace_internal to {role.info.user}")
    known, before = known_identifiers(owner_conn, "b"), snapshot(owner_conn, "b")
    functions = owner_conn.execute(WITH_CALLER).fetchall()
    caller_oid = owner_conn.execute("select 'headrace_internal.caller'::regtype::oid::bigint").fetchone()
    assert len(functions) > 100 and caller_oid is not None
    accepted = []
    for schema, name, parameters, types in functions:
        values = {p: argument(known, name, p, type_) for p, type_ in zip(parameters, types, strict=False)}
        try:
            with role.transaction():
                call(role, caller_oid[0], sql.Identifier(schema, name), values)
            accepted.append(name)
        except psycopg.errors.InsufficientPrivilege as error:
            assert "permission denied for function" not in str(error)
        except psycopg.Error as error:
            accepted.append(f"{name}: {error.sqlstate} {error}")
    assert accepted == []
    assert snapshot(owner_conn, "b") == before


def test_null_caller_reads_no_log_by_the_number_of_its_topic(owner_conn: Connection, sign_in: SignIn) -> None:
    """The type's name is closed to the role, but its oid is in the catalog."""
    role, topic_id = sign_in(a="consume"), known_identifiers(owner_conn, "b").by_column["topic_id"][0]
    oid = role.execute("select proargtypes[pronargs - 1]::bigint from pg_proc where proname = 'read_log'").fetchone()
    assert oid is not None
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        call(role, oid[0], sql.Identifier("headrace", "read_log"), {"p_topic_id": sql.Literal(int(topic_id))})
