"""Alembic: the blocks of docs/howto/alembic.md as a real environment, upgraded and downgraded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from headrace.core import Conflict, Invalid
from headrace.db import Connection, Target, connect, pending_steps
from headrace.integrations.alembic import also_exclude_headrace, include_name
from headrace.log.topics import list_topics
from tests.builders import ROOT

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def alembic(empty: Target, tmp_path: Path) -> Config:
    """The environment that the guide describes, on an empty database."""
    guide = (ROOT / "docs/howto/alembic.md").read_text(encoding="utf-8")
    env, first, second = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(env)
    (tmp_path / "versions/0001.py").write_text(first)
    (tmp_path / "versions/0002.py").write_text(second)
    (tmp_path / "script.py.mako").write_text("${upgrades}\n")
    config = Config()
    config.set_main_option("script_location", str(tmp_path))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", url(empty).replace("%", "%%"))
    return config


def url(target: Target, driver: str = "psycopg") -> str:
    return target.dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


def schemas(conn: Connection) -> list[object]:
    return conn.execute("select nspname::text from pg_namespace where nspname like 'headrace%'").fetchall()


def test_revisions_lead_up_and_down(alembic: Config, empty: Target) -> None:
    command.upgrade(alembic, "head")
    with connect(empty) as conn:
        assert pending_steps(conn) == []
        assert [topic.topic for topic in list_topics(conn)] == ["orders"]
        command.downgrade(alembic, "base")
        assert schemas(conn) == []
        command.upgrade(alembic, "head")
        assert pending_steps(conn) == []


def test_revision_after_an_upgrade_applies_what_is_new(alembic: Config, empty: Target) -> None:
    command.upgrade(alembic, "0001")
    with connect(empty) as conn:
        conn.execute("update headrace_internal.migration set checksum = 'older' where name = 'log/functions/publish'")
        assert len(pending_steps(conn)) == 1
        command.upgrade(alembic, "0002")
        assert pending_steps(conn) == []


def test_downgrade_is_refused_while_there_is_a_topic(alembic: Config, empty: Target) -> None:
    command.upgrade(alembic, "head")
    with connect(empty) as conn:
        conn.execute("select headrace.create_topic('mails')")
        with pytest.raises(Conflict, match="the database has 1 topic, which would be lost"):
            command.downgrade(alembic, "base")
        assert [topic.topic for topic in list_topics(conn)] == ["mails", "orders"], "the revision is rolled back as a whole"


# SQLAlchemy says so of our constraints once nothing keeps it from reading them.
@pytest.mark.filterwarnings("ignore:Can't validate argument 'dialect_options'")
def test_autogenerate_leaves_headrace_alone(alembic: Config, empty: Target, tmp_path: Path) -> None:
    """`check` fails if autogenerate would change anything."""
    env = tmp_path / "env.py"
    env.write_text(env.read_text().replace("target_metadata=None", "target_metadata=MetaData()"))
    env.write_text(f"from sqlalchemy import MetaData\n{env.read_text()}")
    command.upgrade(alembic, "head")
    command.check(alembic)
    env.write_text(env.read_text().replace(", include_name=include_name", ""))
    with pytest.raises(CommandError, match="New upgrade operations detected"):
        command.check(alembic)


def test_own_filter_is_combined_with_headraces() -> None:
    combined = also_exclude_headrace(lambda name, *_: name != "legacy")
    names = ["headrace", "headrace_internal", "pgmq", "legacy", "public"]
    assert [name for name in names if combined(name, "schema", {})] == ["public"]
    assert not include_name("topic", "table", {"schema_name": "headrace_internal"})


def test_offline_mode_says_what_to_do(alembic: Config, tmp_path: Path) -> None:
    env = tmp_path / "env.py"
    env.write_text(env.read_text().replace("context.configure(", "context.configure(as_sql=True, "))
    with pytest.raises(Invalid, match="print its SQL with: headrace migrate --sql"):
        command.upgrade(alembic, "0001")


ASYNC_ENV = """
import asyncio

from alembic import context
from sqlalchemy.ext.asyncio import create_async_engine

import headrace.integrations.alembic


def run_revisions(connection):
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()


async def main():
    engine = create_async_engine(context.config.get_main_option("sqlalchemy.url"))
    async with engine.connect() as connection:
        await connection.run_sync(run_revisions)
    await engine.dispose()


asyncio.run(main())
"""


def test_async_engine_runs_the_revisions_too(alembic: Config, empty: Target, tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(ASYNC_ENV)
    first = tmp_path / "versions/0001.py"
    first.write_text(
        re.sub(
            r"^    create_topic.*$", "    op.execute(\"select headrace.create_topic('orders')\")", first.read_text(), flags=re.M
        )
    )
    command.upgrade(alembic, "head")
    with connect(empty) as conn:
        assert pending_steps(conn) == []
        command.downgrade(alembic, "base")
        assert schemas(conn) == []


def test_other_drivers_are_told_which_one_to_use(alembic: Config, empty: Target, tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(ASYNC_ENV)
    alembic.set_main_option("sqlalchemy.url", url(empty, "asyncpg").replace("%", "%%"))
    with pytest.raises(Invalid, match=r"runs on postgresql\+asyncpg; in env.py use a URL postgresql\+psycopg"):
        command.upgrade(alembic, "0001")
