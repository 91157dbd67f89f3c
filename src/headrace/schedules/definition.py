"""Schedules as a kind of definition: in files, plans and apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import msgspec

from headrace.core import JSON, decode, encode
from headrace.db import Connection, map_database_errors, query
from headrace.definitions import DefinitionKind, StoredDefinition, state_row
from headrace.schedules.cron import check_cron, check_zone
from headrace.schedules.schedule import (
    Missed,
    alter_schedule,
    create_schedule,
    drop_schedule,
    pause_schedule,
    resume_schedule,
)


@dataclass(frozen=True, kw_only=True)
class ScheduleDefinition:
    """An event at every tick of a cron expression, in a time zone."""

    name: str
    cron: str
    topic: str
    type: str
    payload: JSON = field(default_factory=dict)
    zone: str = "UTC"
    key: str | None = None
    headers: Mapping[str, JSON] = field(default_factory=dict)
    missed: Missed = "skip"
    missed_max: int = 100
    grace_s: float = 120
    active: bool = True


def _read_json(value: object) -> JSON:
    """The value as PostgreSQL will give it back; no value is an empty object."""
    return {} if value is None else decode(encode(value))  # type: ignore[arg-type]


def _read_headers(value: object) -> JSON:
    headers = _read_json(value)
    if not isinstance(headers, dict):
        raise msgspec.ValidationError("headers are a mapping of names to values")
    return headers


class ScheduleKind(DefinitionKind[ScheduleDefinition]):
    """Schedules; each is on one shard, so that a tick is one event."""

    noun = "schedule"
    type = ScheduleDefinition
    usual_fields = "name, cron, topic, type"
    readers: ClassVar = {"payload": _read_json, "headers": _read_headers}

    def shard_key(self, definition: ScheduleDefinition) -> str:
        return definition.name if definition.key is None else definition.key

    def check(self, definition: ScheduleDefinition) -> None:
        check_cron(definition.cron)
        check_zone(definition.zone)

    def summary(self, definition: ScheduleDefinition) -> str:
        return f"{definition.cron} ({definition.zone}) → {definition.topic}, {definition.type}"

    def list_stored(self, conn: Connection, namespace: str | None) -> list[StoredDefinition[ScheduleDefinition]]:
        def build(own: dict[str, Any], others: dict[str, Any]) -> StoredDefinition[ScheduleDefinition]:
            return StoredDefinition(ScheduleDefinition(**own), others["source"])

        with map_database_errors(), conn.cursor(row_factory=state_row(ScheduleDefinition, build)) as cursor:
            return cursor.execute(query("definitions/schedules"), {"namespace": namespace}).fetchall()

    def create(self, conn: Connection, definition: ScheduleDefinition, *, namespace: str | None, source: str) -> None:
        options = asdict(definition)
        create_schedule(conn, options.pop("name"), **options, namespace=namespace)
        self._own(conn, definition.name, namespace, source)

    def alter(
        self,
        conn: Connection,
        before: ScheduleDefinition,
        after: ScheduleDefinition,
        *,
        namespace: str | None,
        source: str,
        restart: bool,
    ) -> Mapping[str, int]:
        """Where the topic differs, the old schedule is dropped with its record of ticks, and the new one is created."""
        if before.topic != after.topic:
            self.drop(conn, before.name, namespace=namespace)
            self.create(conn, after, namespace=namespace, source=source)
            return {}
        options = asdict(after) | {"key": after.key or ""}
        for name in ("name", "topic", "active"):
            del options[name]
        alter_schedule(conn, after.name, **options, namespace=namespace)
        if before.active != after.active:
            switch = resume_schedule if after.active else pause_schedule
            switch(conn, after.name, namespace=namespace)
        self._own(conn, after.name, namespace, source)
        return {}

    def drop(self, conn: Connection, name: str, *, namespace: str | None) -> None:
        drop_schedule(conn, name, namespace=namespace)

    def _own(self, conn: Connection, name: str, namespace: str | None, source: str) -> None:
        with map_database_errors():
            conn.execute(query("definitions/own_schedule"), {"name": name, "namespace": namespace, "source": source})


SCHEDULES = ScheduleKind()
