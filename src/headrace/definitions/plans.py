"""Plan and apply: what has to change so that the database has the definitions of a file; shown first, then done.

Promises: applying a plan is one transaction and does exactly what the plan shows. A source drops only what it owns. A
definition of another source is taken over if its name is in the file, and left alone otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headrace.core import Invalid
from headrace.db import Connection
from headrace.definitions.definition import Definition
from headrace.definitions.files import load_definitions
from headrace.definitions.store import AnyKind, StoredDefinition, field_names

Operation = Literal["create", "alter", "drop", "unchanged"]


@dataclass(frozen=True)
class Change:
    """What a plan does with one definition. `differences` are the fields that change; none where only the source does."""

    kind: AnyKind
    operation: Operation
    before: StoredDefinition[Any] | None = None
    after: Definition | None = None
    differences: tuple[str, ...] = ()

    @property
    def definition(self) -> Definition:
        """The new definition; the old one of a definition to drop."""
        if self.after is not None:
            return self.after
        assert self.before is not None
        dropped: Definition = self.before.definition
        return dropped

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def recreates(self) -> bool:
        """True if the definition is dropped and created again, without what it kept: another topic, for example."""
        fixed = {field.name for field in self.kind.fields if field.is_fixed}
        return self.kind.is_recreated and not fixed.isdisjoint(self.differences)


@dataclass(frozen=True)
class Plan:
    """The changes, kind by kind in the order in which they are applied; only drops come before all others."""

    changes: tuple[Change, ...]
    source: str
    namespace: str | None = None

    def select(self, operation: Operation) -> list[Change]:
        """The changes of one operation."""
        return [change for change in self.changes if change.operation == operation]

    @property
    def is_empty(self) -> bool:
        return all(change.operation == "unchanged" for change in self.changes)


@dataclass(frozen=True)
class AppliedChange:
    """A change that was made, and counts of what it affects: `carried` and `restarted` are keys of a correlator."""

    change: Change
    effects: Mapping[str, int] = field(default_factory=dict)


def plan(
    conn: Connection,
    definitions: Path | str | Iterable[Definition],
    *,
    kinds: Sequence[AnyKind],
    source: str | None = None,
    namespace: str | None = None,
) -> Plan:
    """Compares a file, or definitions of these kinds, with the database. Changes nothing.

    The source is the file's name, or `file` for definitions that come from none: two files do not drop each other's."""
    if isinstance(definitions, Path | str):
        source = source or Path(definitions).name
        definitions = load_definitions(definitions, kinds)
    wanted: dict[str, list[Definition]] = {kind.noun: [] for kind in kinds}
    for definition in definitions:
        kind = next((kind for kind in kinds if isinstance(definition, kind.definition_type)), None)
        if kind is None:
            known = ", ".join(kind.definition_type.__name__ for kind in kinds)
            raise Invalid(f"{type(definition).__name__} is not one of {known}")
        wanted[kind.noun].append(definition)
    source = source or "file"
    changes = [
        change for kind in kinds for change in _compare(kind, wanted[kind.noun], kind.list_stored(conn, namespace), source)
    ]
    return Plan(tuple(changes), source, namespace)


def apply(conn: Connection, plan: Plan, *, restart: bool = False) -> tuple[AppliedChange, ...]:
    """Does what the plan shows, in one transaction. Raises where the database has changed since, and then changes nothing.

    With `restart`, the keys of changed correlators start afresh."""
    applied: list[AppliedChange] = []
    with conn.transaction():
        # Drop first: what is dropped may be in the way of what comes, for example in a feedback loop with it.
        for change in reversed(plan.select("drop")):
            change.kind.drop(conn, change.name, namespace=plan.namespace)
            applied.append(AppliedChange(change))
        for change in plan.changes:
            effects: Mapping[str, int] = {}
            own: dict[str, Any] = {"namespace": plan.namespace, "source": plan.source}
            if change.operation == "unchanged" or change.operation == "drop":
                continue
            if change.operation == "alter" and not change.recreates:
                effects = change.kind.alter(conn, change.after, restart=restart, **own)
            else:
                if change.operation == "alter":
                    change.kind.drop(conn, change.name, namespace=plan.namespace)
                change.kind.create(conn, change.after, **own)
            applied.append(AppliedChange(change, effects))
    return tuple(applied)


def _compare(
    kind: AnyKind, wanted: Sequence[Definition], stored: Sequence[StoredDefinition[Any]], source: str
) -> Iterable[Change]:
    known = {before.definition.name: before for before in stored}
    existing: list[Change] = []
    created: list[Change] = []
    for after in wanted:
        before = known.pop(after.name, None)
        if before is None:
            created.append(Change(kind, "create", after=after))
            continue
        differences = tuple(name for name in field_names(kind) if getattr(before.definition, name) != getattr(after, name))
        operation: Operation = "alter" if differences or before.source != source else "unchanged"
        existing.append(Change(kind, operation, before, after, differences))
    dropped = [Change(kind, "drop", before) for before in known.values() if before.source == source]
    return [*existing, *created, *dropped]
