"""Databases as Django leaves them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.db import Server, Target, connect
from tests.builders import own_database
from tests.integrations_django.django_project import DjangoProject


@pytest.fixture(scope="session")
def django_template(server: Server) -> Iterator[str]:
    """The name of a database that Django has migrated."""
    with own_database(server, "django_template") as target:
        assert "Applying headrace.0001_initial... OK" in DjangoProject(target.dsn).manage("migrate")
        with connect(target) as conn:
            (name,) = conn.execute("select current_database()").fetchone()  # type: ignore[misc]
        yield str(name)


@pytest.fixture
def migrated(server: Server, django_template: str) -> Iterator[Target]:
    with own_database(server, "django", template=django_template) as target:
        yield target
