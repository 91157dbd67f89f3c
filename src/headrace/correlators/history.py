"""The history of a correlator's outputs, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from headrace.core import JSON
from headrace.correlators.correlator import get_correlator
from headrace.db import Connection, fetch_rows, query


@dataclass(frozen=True)
class EvidenceEvent:
    """An event that led to an output."""

    position: int
    type: str
    key: str | None
    emitted_at: datetime
    payload: JSON


@dataclass(frozen=True)
class PastOutput:
    """A recorded output: its time, its event (None: a timer), its evidence, and the action or event it became."""

    correlator: str
    version: int
    topic: str
    key: str
    token: str
    output_at: datetime
    position: int | None
    event_id: UUID | None
    evidence: list[int]
    evidence_total: int
    becomes: str | None
    name: str | None
    output_id: UUID
    captured: dict[str, object] | None = None
    """What the registers held; None for a pattern without registers."""
    events: list[EvidenceEvent] | None = None
    """The events of the evidence that are still in the log; None if they were not asked for."""


def list_correlations(
    conn: Connection,
    name: str,
    *,
    key: str | None = None,
    limit: int = 100,
    payloads: bool = False,
    namespace: str | None = None,
) -> list[PastOutput]:
    """The newest outputs of a correlator, oldest first; with `payloads` also the events of their evidence. Raises UnknownCorrelator
    where nothing of that name ever ran."""
    parameters = {"correlator": name, "key": key, "limit": limit, "namespace": namespace}
    outputs = fetch_rows(conn, PastOutput, query("correlators/correlations"), parameters)[::-1]
    if not outputs:
        get_correlator(conn, name, namespace=namespace)
    return _with_events(conn, outputs, namespace) if payloads else outputs


def _with_events(conn: Connection, outputs: Sequence[PastOutput], namespace: str | None) -> list[PastOutput]:
    events: dict[tuple[str, int], EvidenceEvent] = {}
    for topic in {output.topic for output in outputs}:
        positions = sorted({position for output in outputs if output.topic == topic for position in output.evidence})
        parameters = {"topic": topic, "namespace": namespace, "positions": positions}
        rows = fetch_rows(conn, EvidenceEvent, query("correlators/evidence"), parameters)
        events |= {(topic, event.position): event for event in rows}
    return [
        replace(output, events=[events[place] for at in output.evidence if (place := (output.topic, at)) in events])
        for output in outputs
    ]
