"""Correlators as a kind of definition: in files, plans and apply."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, cast

from headrace.correlators.correlator import (
    Correlator,
    alter_correlator,
    create_correlator,
    drop_correlator,
    list_correlators,
    parse_texts,
)
from headrace.correlators.outputs import read_outputs
from headrace.db import Connection
from headrace.definitions import DefinitionKind, StoredDefinition, load_definitions


class CorrelatorKind(DefinitionKind[Correlator]):
    """Correlators; every shard has all of them. A file writes `forget_after` as P30D (ISO 8601)."""

    noun = "correlator"
    type = Correlator
    usual_fields = "name, topic, pattern, outputs"
    readers: ClassVar = {"outputs": lambda outputs: read_outputs(outputs or {})}

    def check(self, definition: Correlator) -> None:
        parse_texts(definition)

    def summary(self, definition: Correlator) -> str:
        return f"{definition.topic}: {' '.join(definition.pattern.split())} → {', '.join(definition.outputs)}"

    def list_stored(self, conn: Connection, namespace: str | None) -> list[StoredDefinition[Correlator]]:
        return [StoredDefinition(state.correlator, state.source) for state in list_correlators(conn, namespace=namespace)]

    def create(self, conn: Connection, definition: Correlator, *, namespace: str | None, source: str) -> None:
        create_correlator(conn, definition, namespace=namespace, source=source)

    def alter(
        self, conn: Connection, before: Correlator, after: Correlator, *, namespace: str | None, source: str, restart: bool
    ) -> Mapping[str, int]:
        """Where the topic differs, the old correlator is dropped and the new one starts without state."""
        if before.topic != after.topic:
            self.drop(conn, before.name, namespace=namespace)
            self.create(conn, after, namespace=namespace, source=source)
            return {}
        keys = alter_correlator(conn, after, namespace=namespace, source=source, restart=restart)
        return {"carried": keys.carried, "restarted": keys.restarted}

    def drop(self, conn: Connection, name: str, *, namespace: str | None) -> None:
        drop_correlator(conn, name, namespace=namespace)


CORRELATORS = CorrelatorKind()


def load_correlators(path: Path | str) -> tuple[Correlator, ...]:
    """The correlators of a file, checked. Raises InvalidDefinitionFile, InvalidOutputs, PatternError, ConditionError."""
    return cast(tuple[Correlator, ...], load_definitions(path, (CORRELATORS,)))
