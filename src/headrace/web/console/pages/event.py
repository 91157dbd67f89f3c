"""Event: the whole history of one event as a timeline, and the tree of what caused it and what it caused."""

from __future__ import annotations

from dataclasses import replace
from typing import cast
from urllib.parse import quote
from uuid import UUID

from headrace.actions import Attempt, Result, list_attempts, list_results
from headrace.core import JSON, StoredEvent, UnknownEvent
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import Json, Sample, decode_json, explain, parse
from headrace.log.archive import find_stored_range, read_stored_events_at
from headrace.observe.history import EventHistory, RuleEvaluation, event_history
from headrace.web.console.pages.event_history import HistoryPart, build_tree, timeline
from headrace.web.console.pages.event_publishing import publish_snippets
from headrace.web.console.pages.event_search import AnswerText, answer_text, clause_rows, exact_json, to_shown
from headrace.web.console.routes import read
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import Page, View


def show_event(view: View) -> Page:
    """One event, in every topic and shard that has it."""
    event_id = _event_id(view.path["event_id"])
    histories: list[HistoryPart] = []
    for shard, parts in view.each_shard(lambda conn: _read(view, conn, event_id)):
        histories += [replace(part, shard=shard) for part in parts]
    if not histories:
        return _show_archived(view, event_id)
    evaluations = [row for part in histories for row in _evaluations(view, part)]
    values = {
        "event_id": event_id,
        "parts": [_part(view, part) for part in histories],
        "is_archived": False,
    }
    tables = (_rule_table(evaluations), _consumer_table(view, histories), _timeline_table(histories))
    return Page("event.html", f"Event {histories[0].history.type}", tables=tables, values=values)


def _read(view: View, conn: Connection, event_id: UUID) -> list[HistoryPart]:
    try:
        histories = event_history(conn, event_id, namespace=view.namespace)
    except UnknownEvent:
        return []
    return [_read_part(view, conn, history) for history in histories]


def _read_part(view: View, conn: Connection, history: EventHistory) -> HistoryPart:
    sent = [output.output_id for output in history.outputs if output.becomes == "action"]
    attempts: list[Attempt] = list_attempts(conn, sent, namespace=history.namespace) if sent else []
    results: list[Result] = list_results(conn, sent, namespace=history.namespace) if sent else []
    payload, headers = _texts(conn, history)
    masked = cast(Json, view.mask(cast(JSON, payload)))
    sample = Sample(masked, history.type, history.key, headers if isinstance(headers, dict) else {}, history.emitted_at)
    return HistoryPart(
        "",
        history,
        sample,
        is_masked=masked != payload,
        hides_fields=bool(view.hidden_fields),
        attempts=tuple(attempts),
        results=tuple(results),
        tree=build_tree(view, conn, history),
    )


def _texts(conn: Connection, history: EventHistory) -> tuple[Json, Json]:
    """Payload and headers with exact numbers."""
    parameters = {"event_id": history.event_id, "topic": history.topic, "namespace": history.namespace}
    with map_database_errors():
        row = conn.execute(query("web/console/event_texts"), parameters).fetchone()
    return (None, {}) if row is None else (decode_json(row[0]), decode_json(row[1]))


def _part(view: View, part: HistoryPart) -> Row:
    """What the template shows of an event in one topic."""
    history = part.history
    payload = exact_json(part.sample.payload)
    chosen = {"shard": part.shard} if len(view.shards) > 1 else {}
    republish = None
    if history.position is not None and not part.is_masked:
        republish = view.url("/events/publish", topic=history.topic, position=history.position, **chosen)
    snippets = publish_snippets(view, history.topic, history.type, history.key, exact_json(part.sample.payload, indent=False))
    return {
        "shard": part.shard,
        "history": history,
        "facts": _facts(part),
        "payload": payload,
        "headers": exact_json(dict(part.sample.headers)) if part.sample.headers else "",
        "entries": timeline(view, part),
        "tree": part.tree,
        "republish": republish,
        "snippets": [] if part.is_masked else snippets,
        "around": view.url("/events", topic=history.topic, before=(history.position or 0) + 25, **chosen),
        "same_key": view.url("/events", topic=history.topic, key=history.key, **chosen) if history.key else None,
        "is_masked": part.is_masked,
    }


def _facts(part: HistoryPart) -> list[tuple[str, object]]:
    history = part.history
    return [
        ("Topic", history.topic),
        ("Position", "not in the log yet" if history.position is None else history.position),
        ("Partition", history.partition),
        ("Type", history.type),
        ("Key", history.key),
        ("Outcome", history.outcome),
        ("Emitted", history.emitted_at),
        ("Appended", history.appended_at),
        ("Producer", history.producer),
        ("Id", str(history.event_id)),
    ]


def _evaluations(view: View, part: HistoryPart) -> list[Row]:
    """The rules that were active at the event's position: their answer, and the value of every clause."""
    rows: list[Row] = []
    for evaluation in part.history.evaluations:
        fits = evaluation.event_type == part.history.type
        clauses = clause_rows(explain(parse(evaluation.condition), part.sample)) if fits else []
        answer = answer_text(evaluation.answer) if fits else AnswerText("another type", "")
        rows.append(
            {
                "shard": part.shard,
                "topic": part.history.topic,
                "rule": evaluation.rule,
                "version": evaluation.version,
                "event_type": evaluation.event_type,
                "condition": evaluation.condition,
                "timing": evaluation.timing,
                "answer": answer.text,
                "mood": answer.kind,
                "url": view.url(f"/rules/{quote(evaluation.rule)}"),
                "fired": evaluation.fired,
                "why": _why(evaluation, part, fits),
                "clauses": clauses,
            }
        )
    # Those that fired first, then those that looked, then those of other types.
    return sorted(rows, key=lambda row: (not row["fired"], row["answer"] == "another type"))


def _why(evaluation: RuleEvaluation, part: HistoryPart, fits: bool) -> str:
    if evaluation.fired:
        return "fired"
    if not fits:
        return f"only looks at {evaluation.event_type}"
    if evaluation.answer is True:
        return "will fire when the rules reach it" if not part.history.passed else "true, but it was not active then"
    return (
        "the condition is false"
        if evaluation.answer is False
        else "the condition is unknown: a field is missing or of another type"
    )


def _rule_table(rows: list[Row]) -> Table:
    names = ("rule", "version", "event_type", "condition", "timing", "answer", "fired", "why")
    return Table("rules", tuple(Column(name) for name in names), rows)


def _consumer_table(view: View, parts: list[HistoryPart]) -> Table:
    rows = [
        {"shard": part.shard, "topic": part.history.topic, **{name: getattr(consumer, name) for name in CONSUMER_FIELDS}}
        for part in parts
        for consumer in part.history.consumers
    ]
    columns = (
        Column("consumer", link=lambda row: view.url(f"/consumers/{row['topic']}/{row['consumer']}")),
        Column("state", kind="state"),
        Column("position", "cursor at", kind="number"),
        Column("retry_at", "next attempt", kind="time"),
        Column("error", wide=True),
    )
    return Table(
        "consumers", columns, rows, title="Consumers", empty_text="Its topic has no consumer.", key=("topic", "consumer")
    )


CONSUMER_FIELDS = ("consumer", "state", "position", "nodes", "retry_at", "error")


def _timeline_table(parts: list[HistoryPart]) -> Table:
    """The export of the timeline."""
    columns = tuple(Column(name) for name in ("at", "kind", "title", "note"))
    rows = [
        {"shard": part.shard, "at": entry.at, "kind": entry.kind, "title": entry.title, "note": entry.note}
        for part in parts
        for entry in timeline(None, part)
    ]
    return Table("timeline", columns, rows)


def _show_archived(view: View, event_id: UUID) -> Page:
    """An event that only the archive has: its address names topic and position."""
    topic, position = view.query.get("topic", ""), view.query.get("position", "")

    def read_event(conn: Connection) -> StoredEvent | None:
        span = find_stored_range(conn, topic, namespace=view.namespace)
        return read_stored_events_at(conn, span, [int(position)]).get(int(position))

    if topic and position.isascii() and position.isdigit() and len(position) <= 18:
        for shard, stored in view.each_shard(read_event):
            if stored is not None and stored.event_id == event_id:
                event = to_shown(view, stored, is_archived=True)
                facts = [("Topic", topic), ("Position", event.position), ("Type", event.type), ("Key", event.key)]
                facts += [("Emitted", event.emitted_at), ("Appended", event.appended_at), ("Producer", event.producer)]
                values = {
                    "event_id": event_id,
                    "is_archived": True,
                    "facts": facts,
                    "payload": exact_json(event.payload),
                    "headers": exact_json(dict(event.headers)) if event.headers else "",
                    "shard": shard,
                }
                return Page("event.html", f"Event {event.type}", values=values, is_live=False)
    raise UnknownEvent(f"there is no event {event_id} in a log or in the outbox; retention may have dropped it")


def _event_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UnknownEvent(f"{text!r} is not the id of an event; an id is a UUID") from None


ROUTES = (read("/events/{event_id}", show_event),)
