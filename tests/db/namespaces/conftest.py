"""Two namespaces, `a` and `b`, each with a topic, a consumer, a schedule and events; and roles that log in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.consume import Consumer, create_consumer
from headrace.db import Connection, Level, Server, Target, connect, create_namespace, grant_namespace
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.schedules import create_schedule
from tests.builders import drain, own_database

SignIn = Callable[..., Connection]


async def ignore(event: object, tx: object) -> None: ...


def ids(conn: Connection, namespace: str) -> dict[str, int]:
    """Ids in a namespace, which a role of another one could guess."""
    row = conn.execute(
        """select t.topic_id, c.consumer_id, s.schedule_id
           from headrace.topic t
           join headrace.consumer c using (topic_id)
           join headrace.schedule s on s.namespace = t.namespace
           where t.namespace = %s""",
        (namespace,),
    ).fetchone()
    assert row is not None
    return dict(zip(("topic_id", "consumer_id", "schedule_id"), row, strict=True))


@pytest.fixture(scope="package")
def two_namespaces(server: Server) -> Iterator[str]:
    """The database that a test with events in two namespaces gets a copy of."""
    with own_database(server, "namespaces", template="headrace_template") as target:
        with connect(target) as conn:
            fill(conn)
        yield str(conninfo_to_dict(target.dsn)["dbname"])


@pytest.fixture
def database(request: pytest.FixtureRequest, server: Server) -> Iterator[Target]:
    is_filled = "owner_conn" in request.fixturenames
    template = request.getfixturevalue("two_namespaces") if is_filled else "headrace_template"
    with own_database(server, template=template) as target:
        yield target


def fill(conn: Connection) -> None:
    """Events in both namespaces, which use the same names."""
    for namespace in ("a", "b"):
        create_namespace(conn, namespace)
        create_topic(conn, "orders", namespace=namespace, partitions=2)
        create_consumer(conn, Consumer(topic="orders", name="mailer", handler=ignore, namespace=namespace))
        create_schedule(conn, "nightly", cron="0 3 * * *", topic="orders", type="due", namespace=namespace)
        for n in range(3):
            publish(conn, "orders", "placed", {"secret": namespace, "n": n}, key="k", namespace=namespace)
    drain(conn)
    publish(conn, "orders", "placed", {"secret": "waiting"}, namespace="b")


@pytest.fixture
def owner_conn(conn: Connection) -> Connection:
    """The owner's connection, with events in both namespaces."""
    return conn


@pytest.fixture
def sign_in(server: Server, database: Target, owner_conn: Connection) -> Iterator[SignIn]:
    """Creates a role with grants (namespace → level) and opens a session of it."""
    roles: list[str] = []
    with ExitStack() as sessions:

        def begin(**grants: Level) -> Connection:
            role = f"role_{uuid4().hex[:12]}"
            owner_conn.execute(f"create role {role} login")
            roles.append(role)
            for namespace, level in grants.items():
                grant_namespace(owner_conn, role, namespace, level)
            session = sessions.enter_context(connect(Target(role, make_conninfo(database.dsn, user=role))))
            session.execute("select set_config('headrace.namespace', %s, false)", (next(iter(grants), ""),))
            return session

        yield begin
    with psycopg.connect(database.dsn, autocommit=True) as owner:
        for role in roles:
            owner.execute(f"drop owned by {role}")
            owner.execute(f"drop role {role}")
