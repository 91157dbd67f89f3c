"""The pytest plugin: fixtures for throw-away databases and the test kit.

pytest loads this module for everybody who has headrace installed, so it imports nothing of headrace before a fixture is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.db import Connection, Target
    from headrace.testing.databases import DatabaseServer
    from headrace.testing.kit import Kit


@pytest.fixture(scope="session")
def headrace_server() -> Iterator[DatabaseServer]:
    """The server of the session: HEADRACE_TEST_DSN, or an embedded PostgreSQL."""
    from headrace.testing.databases import open_server

    with open_server() as server:
        yield server


@pytest.fixture(scope="session")
def headrace_setup() -> Callable[[Connection], None] | None:
    """Override it to return a function of a connection: it creates your own tables, topics and rules, once per session."""
    return None


@pytest.fixture(scope="session")
def headrace_template(headrace_server: DatabaseServer, headrace_setup: Callable[[Connection], None] | None) -> Iterator[str]:
    """The name of the database that every test gets a copy of."""
    if headrace_setup is None:
        yield headrace_server.template()
        return
    with headrace_server.prepared_template(headrace_setup) as name:
        yield name


@pytest.fixture
def headrace_database(headrace_server: DatabaseServer, headrace_template: str) -> Iterator[Target]:
    """A database of this test, with the schema of headrace and what headrace_setup has added."""
    with headrace_server.database(headrace_template) as (target, _):
        yield target


@pytest.fixture
def headrace_dsn(headrace_database: Target) -> str:
    """The address of the test's database, as a URL: postgresql://…"""
    from headrace.db import to_url

    return to_url(headrace_database.dsn)


@pytest.fixture
def headrace_kit(headrace_database: Target) -> Iterator[Kit]:
    """The test kit on the test's database."""
    from headrace.testing.kit import Kit

    with Kit(headrace_database) as kit:
        yield kit
