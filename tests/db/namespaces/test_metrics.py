"""Metrics show a role only its own namespaces, and reading them gives no right."""

from __future__ import annotations

import psycopg
import pytest

from headrace.db import Connection
from headrace.observe.metrics import read_metrics
from tests.db.namespaces.conftest import SignIn


def test_role_sees_only_the_namespaces_in_which_it_may_consume(sign_in: SignIn, owner_conn: Connection) -> None:
    samples = read_metrics(sign_in(a="consume", b="publish"))
    assert {sample.labels[0] for sample in samples if sample.labels} == {"a"}
    assert {sample.family.name for sample in samples} >= {"headrace_consumer_lag_events", "headrace_log_bytes"}
    assert {sample.labels[0] for sample in read_metrics(owner_conn) if sample.labels} >= {"a", "b", "default"}


def test_publisher_may_not_read_metrics(sign_in: SignIn) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        read_metrics(sign_in(a="publish"))


@pytest.mark.parametrize(
    "known", ["null", "[]", '{"1": "x; drop table y"}', '{"1": [null, "1; select 1", {}]}', '{"1": [1, 2, {"0": "never"}]}']
)
def test_what_the_caller_says_it_knows_changes_only_its_own_answer(sign_in: SignIn, owner_conn: Connection, known: str) -> None:
    owner_conn.execute("update headrace_internal.topic set asleep = true")
    before = [sample for sample in read_metrics(owner_conn) if "seconds" not in sample.family.name]
    session = sign_in(a="consume")
    try:
        session.execute("select count(*) from headrace.metrics(%s::jsonb)", (known,))
    except psycopg.Error as error:
        assert error.sqlstate is not None and error.sqlstate.startswith("22"), "only a wrong value"
    assert [sample for sample in read_metrics(owner_conn) if "seconds" not in sample.family.name] == before


def test_statements_that_a_role_has_prepared_do_not_run_as_the_owner(sign_in: SignIn, owner_conn: Connection) -> None:
    """The owner's own session uses prepared statements, which would run with the rights of the function: as the owner."""
    session = sign_in(a="consume")
    read_metrics(owner_conn)
    names = [name for (name,) in owner_conn.execute("select name from pg_prepared_statements where name like 'headrace%'")]
    assert any("head" in name for name in names), "the names are real"
    for name in names:
        parameters = "(bigint)" if "_time_" in name else ""
        session.execute(f"prepare {name} {parameters} as select set_config('evil.ran', current_user, false)")
    assert read_metrics(session) != []
    assert session.execute("select current_setting('evil.ran', true)").fetchone() in ((None,), ("",))
