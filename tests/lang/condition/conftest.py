"""A database connection per run: the printers are tested by the engines themselves."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headrace.db import Server


@pytest.fixture(scope="session")
def database(server: Server) -> Iterator[psycopg.Connection]:
    """A database whose own order of text is not by code point, where the server can have one."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        # The tests may come back to this server after those of another version.
        admin.execute("drop database if exists condition with (force)")
        try:
            admin.execute("create database condition template template0 locale_provider icu icu_locale 'en-US'")
        except psycopg.errors.FeatureNotSupported:
            admin.execute("create database condition")
    with psycopg.connect(server.dsn("condition"), autocommit=True) as connection:
        yield connection
