"""A database connection and a Spark session, one of each per run: the printers are tested by the engines themselves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import psycopg
import pytest

from headrace.db import Server


@pytest.fixture(scope="session")
def database(server: Server) -> Iterator[psycopg.Connection]:
    """A database whose own order of text is not by code point, where the server can have one."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        try:
            admin.execute("create database condition template template0 locale_provider icu icu_locale 'en-US'")
        except psycopg.errors.FeatureNotSupported:
            admin.execute("create database condition")
    with psycopg.connect(server.dsn("condition"), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: pip install 'headrace[spark]'")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
