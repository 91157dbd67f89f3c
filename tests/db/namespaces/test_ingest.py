"""Access tokens and hooks stay in their namespace, whoever calls the functions, and whichever role the server has."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.core import Forbidden, NotFound, UnknownAccessToken, map_database_errors
from headrace.db import Connection, Level, Target, drop_namespace
from headrace.web.http import (
    IngestSettings,
    NewAccessToken,
    create_access_token,
    create_hook,
    list_access_tokens,
    list_hooks,
    revoke_access_token as revoke,
)
from tests.db.namespaces.conftest import SignIn
from tests.web.http.conftest import LOOPBACK, Client, serve

TOKEN = NewAccessToken("hrt_" + "x" * 43)


@pytest.fixture
def filled(owner_conn: Connection) -> int:
    """A token and a hook in each namespace; the number of b's token."""
    for namespace in ("a", "b"):
        token = TOKEN if namespace == "b" else None
        create_access_token(owner_conn, "shop", ["publish", "read"], token=token, namespace=namespace)
        create_hook(owner_conn, "github", "orders", "github", [f"env:{namespace.upper()}"], namespace=namespace)
    row = owner_conn.execute("select token_id from headrace.access_token where namespace = 'b'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("level", ["publish", "consume", "work", "admin"])
def test_role_of_another_namespace_neither_sees_nor_changes_anything(
    owner_conn: Connection, sign_in: SignIn, filled: int, level: Level
) -> None:
    role = sign_in(a=level)
    rows = (
        "select t::text from headrace_internal.access_token t union all select h::text from headrace_internal.hook h order by 1"
    )
    before = owner_conn.execute(rows).fetchall()
    attacks = [
        ("select headrace.create_access_token('forged', '{publish}', p_namespace => 'b')", ()),
        ("select headrace.revoke_access_token('shop', 'b')", ()),
        ("select headrace.publish_once(%s, %s, %s, '[]')", (filled, TOKEN.digest, TOKEN.digest)),
        ("select headrace.create_hook('forged', 'orders', 'github', '{env:A}', p_namespace => 'b')", ()),
        ("select headrace.alter_hook('github', p_secrets => '{env:A}', p_namespace => 'b')", ()),
        ("select headrace.drop_hook('github', 'b')", ()),
        ("update headrace.access_token set revoked_at = now()", ()),
        ("select digest from headrace.access_token", ()),
        ("select digest from headrace_internal.access_token", ()),
    ]
    for statement, parameters in attacks:
        with pytest.raises(psycopg.Error):
            role.execute(statement, parameters)
    role.execute("select headrace.touch_access_tokens(%s)", ([filled],))
    assert role.execute("select count(*) from headrace.find_access_token(%s)", (TOKEN.digest,)).fetchone() == (0,)
    if level in ("publish", "admin"):
        assert role.execute("select count(*) from headrace.find_hook('b', 'github')").fetchone() == (0,)
        assert role.execute("select count(*) from headrace.find_hook('a', 'github')").fetchone() == (1,)
    assert owner_conn.execute(rows).fetchall() == before


def test_only_admins_see_tokens_and_hooks(sign_in: SignIn, filled: int) -> None:
    admin = sign_in(a="admin")
    assert [token.name for token in list_access_tokens(admin, namespace="a")] == ["shop"]
    assert [hook.hook for hook in list_hooks(admin, namespace="a")] == ["github"]
    assert (list_access_tokens(admin, namespace="b"), list_hooks(admin, namespace="b")) == ([], [])
    with pytest.raises(Forbidden), map_database_errors():
        sign_in(a="consume").execute("select * from headrace.access_token")


def test_number_of_a_token_that_does_not_exist_gives_the_same_error(sign_in: SignIn, filled: int) -> None:
    role = sign_in(a="publish")
    texts = []
    for number in (filled, 999_999):
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
            role.execute("select headrace.publish_once(%s, %s, %s, '[]')", (number, TOKEN.digest, TOKEN.digest))
        texts.append(str(error.value.diag.message_primary).replace(str(number), "N"))
    assert texts[0] == texts[1]


def test_tokens_go_with_their_namespace(owner_conn: Connection, filled: int) -> None:
    owner_conn.execute("delete from headrace.schedule where namespace = 'b'")
    owner_conn.execute("select headrace.drop_consumer('orders', 'mailer', p_namespace => 'b')")
    owner_conn.execute("select headrace.drop_topic('orders', true, 'b')")
    drop_namespace(owner_conn, "b")
    with pytest.raises(UnknownAccessToken):
        revoke(owner_conn, "shop", namespace="b")


@pytest.mark.lane("pg18")
def test_server_with_a_role_of_one_namespace_serves_that_namespace_only(
    owner_conn: Connection, database: Target, sign_in: SignIn, filled: int
) -> None:
    """The role decides, too: a token of another namespace is unknown to this server, and a right that the role has not is missing."""
    own = create_access_token(owner_conn, "own", ["publish", "read"], namespace="a")
    role = sign_in(a="publish")
    target = Target("role", make_conninfo(database.dsn, user=role.info.user))
    with serve([target], IngestSettings(address=LOOPBACK)) as port:
        assert Client(port, TOKEN.token).post("/topics/orders/events?type=x", {}).status == 401
        client = Client(port, own.token)
        answer = client.post("/topics/orders/events?type=x", {}, idempotency_key="k")
        assert answer.status == 201, answer.body
        assert client.post("/topics/orders/events?type=x", {}).status == 201
        assert client.get("/topics/orders/events").status == 403, "the role has not the level consume"
        assert client.post("/hooks/b/github", {}).status == 404
    waiting = (
        "select count(*) from headrace.outbox o join headrace.topic t using (topic_id) where t.namespace = %s and o.type = 'x'"
    )
    assert [owner_conn.execute(waiting, (namespace,)).fetchone() for namespace in ("a", "b")] == [(2,), (0,)]


def test_not_found_is_not_forbidden(owner_conn: Connection, sign_in: SignIn) -> None:
    with pytest.raises(NotFound):
        revoke(sign_in(a="admin"), "none", namespace="a")
