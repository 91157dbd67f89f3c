"""How-to guides that are commands run as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import create_topic
from tests.builders import own_database
from tests.docs.guide import DOCS
from tests.docs.tutorial import Reader, environment_for

GUIDES = [
    "backup",
    "failover",
    "hook-signature",
    "kafka",
    "move-to-spark",
    "namespaces",
    "relay-target",
    "replay",
    "schema-changes",
    "session-kind",
    "upgrade",
    "webhooks",
]


@pytest.fixture
def reader(database: Target, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setenv("HEADRACE_DSN", database.dsn)
    monkeypatch.chdir(tmp_path)
    yield Reader(tmp_path, environment_for(database.dsn), names={"conn": conn})
    conn.execute("drop role if exists billing_app") if _has_role(conn) else None


def _has_role(conn: Connection) -> bool:
    if conn.execute("select from pg_roles where rolname = 'billing_app'").rowcount:
        conn.execute("select headrace.revoke_namespace('billing_app', 'billing'); drop owned by billing_app")
        return True
    return False


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("guide", GUIDES)
def test_guide_runs(reader: Reader, guide: str) -> None:
    assert reader.read(f"howto/{guide}") > 0


@pytest.mark.lane("pg18")
def test_shards_guide_runs(server: Server, database: Target) -> None:
    with own_database(server, template="headrace_template") as second:
        targets = [Target("a", database.dsn), Target("b", second.dsn)]
        for target in targets:
            with connect(target) as conn:
                create_topic(conn, "orders")
        reader = Reader(Path(), {}, names={"targets": targets})
        reader.read("howto/shards")
        counts = []
        for target in targets:
            with connect(target) as conn:
                counts.append(conn.execute("select count(*) from headrace.outbox").fetchone())
    assert sum(count[0] for count in counts if count) == 4 and all(count != (0,) for count in counts)


def test_every_guide_is_run_by_a_test() -> None:
    tested = {"alembic", "django", "embedding", "erase", "fastapi", "sqlalchemy", "testing", "shards", *GUIDES}
    assert {page.stem for page in (DOCS / "howto").glob("*.md")} == tested
