"""Namespaces and grants: created, listed, revoked."""

from __future__ import annotations

import pytest

from headrace.core import Forbidden, Invalid, NamespaceExists, NamespaceInUse, UnknownNamespace, UnknownRole
from headrace.db import (
    Connection,
    create_namespace,
    drop_namespace,
    grant_namespace,
    list_grants,
    list_namespaces,
    revoke_namespace,
)
from headrace.log.outbox import publish
from headrace.log.topics import create_topic, drop_topic, read_log
from tests.db.namespaces.conftest import SignIn


def test_namespaces_are_listed_with_their_topics(owner_conn: Connection) -> None:
    assert [(row.namespace, row.topics) for row in list_namespaces(owner_conn)] == [("a", 1), ("b", 1), ("default", 0)]


def test_namespace_name_is_used_once(owner_conn: Connection) -> None:
    with pytest.raises(NamespaceExists, match='namespace "a" already exists'):
        create_namespace(owner_conn, "a")


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "x" * 41])
def test_invalid_namespace_name_is_rejected(conn: Connection, name: str) -> None:
    with pytest.raises(Invalid, match="invalid namespace name; a name begins with"):
        create_namespace(conn, name)


def test_namespace_is_dropped_only_when_empty(conn: Connection) -> None:
    create_namespace(conn, "c")
    create_topic(conn, "orders", namespace="c")
    with pytest.raises(NamespaceInUse, match='namespace "c" has topics: orders'):
        drop_namespace(conn, "c")
    drop_topic(conn, "orders", namespace="c")
    drop_namespace(conn, "c")
    with pytest.raises(UnknownNamespace, match=r'no namespace "c".*Known namespaces: default'):
        drop_namespace(conn, "c")


def test_default_namespace_is_not_dropped(conn: Connection) -> None:
    with pytest.raises(NamespaceInUse, match="cannot be dropped"):
        drop_namespace(conn, "default")


def test_grant_needs_an_existing_role_namespace_and_level(owner_conn: Connection) -> None:
    with pytest.raises(UnknownRole, match='no role "nobody"'):
        grant_namespace(owner_conn, "nobody", "a", "publish")
    with pytest.raises(UnknownNamespace, match='no namespace "z"'):
        grant_namespace(owner_conn, "postgres", "z", "publish")
    with pytest.raises(Invalid, match="level_known"):
        grant_namespace(owner_conn, "postgres", "a", "everything")  # type: ignore[arg-type]


def test_revoked_role_is_shut_out_at_once(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    assert len(read_log(role, "orders")) == 3
    revoke_namespace(owner_conn, role.info.user, "a")
    with pytest.raises(Forbidden, match="permission denied"):
        read_log(role, "orders")
    assert list_grants(owner_conn, namespace="a") == []


def test_revoking_one_level_leaves_the_others(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="publish")
    grant_namespace(owner_conn, role.info.user, "a", "consume")
    revoke_namespace(owner_conn, role.info.user, "a", "publish")
    assert [grant.level for grant in list_grants(owner_conn)] == ["consume"]
    assert len(read_log(role, "orders")) == 3
    with pytest.raises(Forbidden):
        publish(role, "orders", "placed", 1)


def test_grants_are_dropped_with_their_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    create_namespace(owner_conn, "c")
    role = sign_in(c="admin")
    drop_namespace(owner_conn, "c")
    with pytest.raises(Forbidden):
        read_log(role, "orders")


def test_grants_hold_for_members_of_the_role(owner_conn: Connection, sign_in: SignIn) -> None:
    group, member = sign_in(a="consume"), sign_in()
    owner_conn.execute(f"grant {group.info.user} to {member.info.user}")
    assert len(read_log(member, "orders", namespace="a")) == 3


def test_grants_of_a_dropped_role_do_no_harm(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="consume")
    owner_conn.execute("create role gone")
    grant_namespace(owner_conn, "gone", "a", "consume")
    owner_conn.execute("drop owned by gone; drop role gone")
    assert len(read_log(role, "orders")) == 3
    assert [grant.role for grant in list_grants(owner_conn)] == [role.info.user]
    owner_conn.execute("select headrace_internal.secure()")
