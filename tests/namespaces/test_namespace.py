"""Namespaces and grants: made, listed, taken away."""

from __future__ import annotations

import pytest

from headrace.core import Forbidden, Invalid, NamespaceExists, NamespaceInUse, UnknownNamespace, UnknownRole
from headrace.db import Connection
from headrace.log import create_topic, drop_topic, read
from headrace.namespaces import create_namespace, drop_namespace, grant_namespace, list_grants, list_namespaces, revoke_namespace
from headrace.outbox import publish
from tests.namespaces.conftest import SignIn


def test_namespaces_are_listed_with_their_topics(stage: Connection) -> None:
    assert [(one.namespace, one.topics) for one in list_namespaces(stage)] == [("a", 1), ("b", 1), ("default", 0)]


def test_second_namespace_of_a_name_is_refused(stage: Connection) -> None:
    with pytest.raises(NamespaceExists, match='namespace "a" is already there'):
        create_namespace(stage, "a")


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "x" * 41])
def test_name_rule(conn: Connection, name: str) -> None:
    with pytest.raises(Invalid, match="namespace_name_rule"):
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
    with pytest.raises(NamespaceInUse, match="always there"):
        drop_namespace(conn, "default")


def test_grant_needs_a_role_a_namespace_and_a_level_that_are_there(stage: Connection) -> None:
    with pytest.raises(UnknownRole, match='no role "nobody"'):
        grant_namespace(stage, "nobody", "a", "publish")
    with pytest.raises(UnknownNamespace, match='no namespace "z"'):
        grant_namespace(stage, "postgres", "z", "publish")
    with pytest.raises(Invalid, match="level_known"):
        grant_namespace(stage, "postgres", "a", "everything")  # type: ignore[arg-type]


def test_revoked_role_is_shut_out_at_once(stage: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    assert len(read(role, "orders")) == 3
    revoke_namespace(stage, role.info.user, "a")
    with pytest.raises(Forbidden, match="permission denied"):
        read(role, "orders")
    assert list_grants(stage, namespace="a") == []


def test_revoking_one_level_leaves_the_others(stage: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="publish")
    grant_namespace(stage, role.info.user, "a", "consume")
    revoke_namespace(stage, role.info.user, "a", "publish")
    assert [grant.level for grant in list_grants(stage)] == ["consume"]
    assert len(read(role, "orders")) == 3
    with pytest.raises(Forbidden):
        publish(role, "orders", "placed", 1)


def test_dropping_a_namespace_takes_its_grants_along(stage: Connection, sign_in: SignIn) -> None:
    create_namespace(stage, "c")
    role = sign_in(c="admin")
    drop_namespace(stage, "c")
    with pytest.raises(Forbidden):
        read(role, "orders")


def test_grants_hold_for_members_of_the_role(stage: Connection, sign_in: SignIn) -> None:
    group, member = sign_in(a="consume"), sign_in()
    stage.execute(f"grant {group.info.user} to {member.info.user}")
    assert len(read(member, "orders", namespace="a")) == 3


def test_grants_of_a_dropped_role_harm_nobody(stage: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="consume")
    stage.execute("create role gone")
    grant_namespace(stage, "gone", "a", "consume")
    stage.execute("drop owned by gone; drop role gone")
    assert len(read(role, "orders")) == 3
    assert [grant.role for grant in list_grants(stage)] == [role.info.user]
    stage.execute("select headrace_internal.secure()")
