"""Two databases with the same log, rules and correlators: one for each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, Server, StopSignal, Subscription, Target, create_pool
from headrace.rules import RuleEngine
from headrace.spark import Access
from headrace.spark.pipeline import TopicPipeline
from tests.rules.conftest import remembering
from tests.spark.reading import secret_file

MakePipeline = Callable[..., TopicPipeline]


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with remembering(database) as connection:
        yield connection


@pytest.fixture
def copy_database(server: Server, database: Target) -> Iterator[Callable[[], Target]]:
    """Copies the test's database as it is, after ending the connections to it."""
    original = psycopg.conninfo.conninfo_to_dict(database.dsn)["dbname"]
    names: list[str] = []

    def copy() -> Target:
        name = f"copy_{uuid4().hex}"
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (original,))
            admin.execute(f"create database {name} template {original}")
        names.append(name)
        return Target("test", server.dsn(name))

    yield copy
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for name in names:
            admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def make_pipeline(spark: SparkSession, tmp_path: Path) -> MakePipeline:
    """Creates pipelines of a topic that the test steps itself."""

    def make(target: Target, conn: Connection, topic: str = "cars", **options: object) -> TopicPipeline:
        folder = tmp_path / uuid4().hex
        folder.mkdir()
        access = Access(secret=secret_file(folder, target))
        # parse_targets names a single shard main.
        pipeline = TopicPipeline(spark, access, conn, topic, shard="main", **options)  # type: ignore[arg-type]
        begin = "select headrace_internal.begin_pipeline(%s, %s, 'test', 'local')"
        conn.execute(begin, (pipeline.topic_id, pipeline.run_id))
        return pipeline

    return make


@asynccontextmanager
async def database_engine(target: Target) -> AsyncIterator[tuple[RuleEngine, CorrelatorEngine]]:
    """The database's own engine, which the test steps itself."""
    pool = create_pool(target, size=2)
    await pool.open()
    try:
        parameters = (pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
        yield RuleEngine(*parameters), CorrelatorEngine(*parameters)
    finally:
        await pool.close()
