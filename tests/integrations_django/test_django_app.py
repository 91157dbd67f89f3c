"""The Django app: one `manage.py migrate`, all commands, the admin, the example's own tests."""

from __future__ import annotations

import json

import pytest

from headrace.db import Connection, Target, connect, pending_steps
from headrace.log.topics import list_topics
from tests.builders import ROOT
from tests.integrations_django.django_project import DjangoProject

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def shop(migrated: Target) -> DjangoProject:
    return DjangoProject(migrated.dsn)


def schemas(conn: Connection) -> set[str]:
    rows = conn.execute("select nspname::text from pg_namespace where nspname like 'headrace%'").fetchall()
    return {str(name) for (name,) in rows}


def test_one_migrate_installs_headrace_before_the_migrations_that_need_it(migrated: Target, shop: DjangoProject) -> None:
    with connect(migrated) as conn:
        assert pending_steps(conn) == []
        assert [topic.topic for topic in list_topics(conn)] == ["orders"]
    shop.manage("makemigrations", "--check")


def test_migrate_after_an_upgrade_brings_headrace_up_to_date(migrated: Target, shop: DjangoProject) -> None:
    with connect(migrated) as conn:
        conn.execute("update headrace_internal.migration set checksum = 'older' where name = 'log/functions/publish'")
        assert "headrace: migrated, 1 step, release" in shop.manage("migrate")
        assert pending_steps(conn) == []


def test_way_back_is_refused_while_there_are_topics_and_then_leaves_nothing(migrated: Target, shop: DjangoProject) -> None:
    with connect(migrated) as conn:
        conn.execute("select headrace.create_topic('mails')")
        refusal = shop.manage("migrate", "headrace", "zero", code=1)
        assert "headrace is not uninstalled: the database has 1 topic, which would be lost" in refusal
        assert schemas(conn) == {"headrace", "headrace_internal"}
        conn.execute("select headrace.drop_topic('mails')")
        shop.manage("migrate", "headrace", "zero")
        assert schemas(conn) == set()
        assert conn.execute("select queue_name from pgmq.meta").fetchall() == []
        assert conn.execute("select to_regclass('headrace_task')").fetchone() == (None,)
        shop.manage("migrate")
        assert pending_steps(conn) == []


def test_manage_headrace_runs_commands_on_djangos_database(shop: DjangoProject) -> None:
    listed = shop.manage("headrace", "--database", "default", "topic", "list", "--json", "--settings=shop.settings")
    assert [topic["topic"] for topic in json.loads(listed)] == ["orders"]
    assert "no topic" in shop.manage("headrace", "topic", "show", "nowhere", code=3)
    assert "manage.py headrace" in shop.manage("headrace", "--help")


def test_headrace_may_be_in_another_database_than_the_default(empty: Target) -> None:
    answers = json.loads(DjangoProject(empty.dsn).python(ROOT / "tests/integrations_django/django_databases_run.py", empty.dsn))
    assert answers["pending"] == 0 and answers["topics"] == ["orders"]
    assert answers["role"] == [True, "5MB"], "assume_role and options of Django hold for headrace's commands"
    assert answers["password"] == "it's % a = secret"
    assert answers["sqlite"].startswith("database 'default' is sqlite, and headrace runs in PostgreSQL; name the alias")


def test_the_examples_own_tests_pass(empty: Target) -> None:
    assert "OK" in DjangoProject(empty.dsn).manage("test", "--noinput")
