"""Two databases with one log, rules and correlators: one for each engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, Server, Subscription, Target, create_pool
from headrace.rules import RuleEngine
from headrace.spark import Access
from headrace.spark.pipeline import TopicPipeline
from tests.rules.conftest import remembering
from tests.spark.frames import secret_file

Made = Callable[..., TopicPipeline]


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with remembering(database) as connection:
        yield connection


@pytest.fixture
def twin(server: Server, database: Target) -> Iterator[Callable[[], Target]]:
    """Makes a copy of the test's database as it is; nobody may be connected to it then."""
    made: list[str] = []

    def copy() -> Target:
        name = f"twin_{uuid4().hex}"
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                (psycopg.conninfo.conninfo_to_dict(database.dsn)["dbname"],),
            )
            admin.execute(f"create database {name} template {psycopg.conninfo.conninfo_to_dict(database.dsn)['dbname']}")
        made.append(name)
        return Target("test", server.dsn(name))

    yield copy
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for name in made:
            admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def pipelines(spark: SparkSession, tmp_path: Path) -> Made:
    """Makes pipelines of a topic that are stepped by hand."""

    def made(target: Target, conn: Connection, topic: str = "cars", **options: object) -> TopicPipeline:
        folder = tmp_path / uuid4().hex
        folder.mkdir()
        # In the tests the one shard is called as parse_targets calls it.
        access = Access(secret=secret_file(folder, target))
        return begun(TopicPipeline(spark, access, conn, topic, shard="main", **options))  # type: ignore[arg-type]

    return made


def begun(one: TopicPipeline) -> TopicPipeline:
    one._conn.execute("select headrace_internal.begin_pipeline(%s, %s, 'test', 'local')", (one.topic_id, one.run_id))
    return one


@asynccontextmanager
async def database_engine(target: Target) -> AsyncIterator[tuple[RuleEngine, CorrelatorEngine]]:
    """The database's own engine, stepped by hand."""
    own = create_pool(target, size=2)
    await own.open()
    try:
        given = (own, Subscription("headrace_rule"), Subscription("headrace_log"), asyncio.Event())
        yield RuleEngine(*given), CorrelatorEngine(*given)
    finally:
        await own.close()
