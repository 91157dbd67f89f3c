"""Nodes that have registered, and how they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.rows import class_row

from headrace.core import JSON
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class NodeState:
    """A node: `alive`, `lost` (no heartbeat for 90 seconds, and it did not say goodbye) or `stopped`."""

    node_id: UUID
    namespace: str
    name: str
    description: str | None
    metadata: Mapping[str, JSON]
    version: str
    state: Literal["alive", "lost", "stopped"]
    handlers: list[str]
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None


def list_nodes(conn: Connection, *, stopped: bool = False, namespace: str | None = None) -> list[NodeState]:
    """The nodes of a namespace, those alive first; with `stopped` also those that ended in order."""
    with map_database_errors(), conn.cursor(row_factory=class_row(NodeState)) as cursor:
        return cursor.execute(query("node/nodes"), {"all": stopped, "namespace": namespace}).fetchall()
