"""Event: the whole history of one event as a timeline, and the tree of what caused it and what it caused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic
from typing import cast
from urllib.parse import quote
from uuid import UUID

from headrace.actions import Attempt, Result, list_attempts, list_results
from headrace.core import JSON, HeadraceError, UnknownEvent
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import Json, Sample, decode_json, explain, parse
from headrace.log.archive import REPLAY_HEADER
from headrace.observe.history import EventHistory, RuleEvaluation, event_history
from headrace.web.console.pages.event_search import (
    AnswerText,
    answer_text,
    clause_rows,
    exact_json,
    find_stored_event,
    parse_position,
    to_shown,
)
from headrace.web.console.pages.events import publish_snippets
from headrace.web.console.routes import read
from headrace.web.console.tables import Column, Row, Table, to_row
from headrace.web.console.texts import format_seconds
from headrace.web.console.view import Page, View

DEPTH_MAX = 6
NODES_MAX = 60
TREE_S = 0.06
"""The tree ends where reading it takes longer; every event in it leads on."""


@dataclass
class TreeNode:
    """A node of the tree."""

    kind: str
    label: str
    url: str = ""
    state: str = ""
    is_here: bool = False
    children: list[TreeNode] = field(default_factory=list)


@dataclass(frozen=True)
class HistoryPart:
    """An event in one topic of one shard, with what its history does not have."""

    shard: str
    history: EventHistory
    sample: Sample
    """The event as a condition sees it, without hidden fields."""
    is_masked: bool
    hides_fields: bool
    """Fields are hidden from the person, in this payload or in others."""
    attempts: tuple[Attempt, ...]
    """Failed attempts of the actions that correlators sent."""
    results: tuple[Result, ...]
    tree: TreeNode


@dataclass(frozen=True)
class Entry:
    """One thing that happened. Without a time it has not happened yet, or its time was not recorded."""

    at: datetime | None
    kind: str
    """log, rule, correlator, action, consumer or problem."""
    title: str
    note: str = ""
    mood: str = ""
    """good, warn or bad."""
    url: str = ""
    details: str = ""
    """A long text, such as a traceback."""
    after_s: float | None = None
    """Since the event was emitted."""


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
    tables = (_rule_table(evaluations), _consumer_table(view, histories), _timeline_table(view, histories))
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
    chosen = view.on_shard(part.shard)
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
                **to_row(evaluation),
                "shard": part.shard,
                "topic": part.history.topic,
                "answer": answer.text,
                "mood": answer.kind,
                "url": view.url(f"/rules/{quote(evaluation.rule)}"),
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
        {"shard": part.shard, "topic": part.history.topic, **to_row(consumer)}
        for part in parts
        for consumer in part.history.consumers
    ]
    columns = (
        Column("consumer", link=view.link("/consumers", "topic", "consumer")),
        Column("state", kind="state"),
        Column("position", "cursor at", kind="number"),
        Column("retry_at", "next attempt", kind="time"),
        Column("error", wide=True),
    )
    return Table(
        "consumers", columns, rows, title="Consumers", empty_text="Its topic has no consumer.", key=("topic", "consumer")
    )


def _timeline_table(view: View, parts: list[HistoryPart]) -> Table:
    """The export of the timeline."""
    columns = tuple(Column(name) for name in ("at", "kind", "title", "note"))
    rows = [
        {"shard": part.shard, "at": entry.at, "kind": entry.kind, "title": entry.title, "note": entry.note}
        for part in parts
        for entry in timeline(view, part)
    ]
    return Table("timeline", columns, rows)


def _show_archived(view: View, event_id: UUID) -> Page:
    """An event that only the archive has: its address names topic and position."""
    topic, position = view.query.get("topic", ""), parse_position(view.query.get("position", ""))
    found = find_stored_event(view, topic, position) if topic and position is not None else None
    if found is not None and found[1].event_id == event_id:
        event = to_shown(view, found[1], is_archived=True)
        facts = [("Topic", topic), ("Position", event.position), ("Type", event.type), ("Key", event.key)]
        facts += [("Emitted", event.emitted_at), ("Appended", event.appended_at), ("Producer", event.producer)]
        values = {
            "event_id": event_id,
            "is_archived": True,
            "facts": facts,
            "payload": exact_json(event.payload),
            "headers": exact_json(dict(event.headers)) if event.headers else "",
            "shard": found[0],
        }
        return Page("event.html", f"Event {event.type}", values=values, is_live=False)
    raise UnknownEvent(f"there is no event {event_id} in a log or in the outbox; retention may have dropped it")


def _event_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UnknownEvent(f"{text!r} is not the id of an event; an id is a UUID") from None


def timeline(view: View, part: HistoryPart) -> list[Entry]:
    """Everything that is known of an event, oldest first; what waits is at the end."""
    history = part.history
    entries = [*_log(history), *_rules(view, history), *_outputs(view, part), *_actions(view, history), *_problems(history)]
    dated = sorted((entry for entry in entries if entry.at is not None), key=lambda entry: entry.at or history.emitted_at)
    return [*(_with_distance(entry, history) for entry in dated), *(entry for entry in entries if entry.at is None)]


def _with_distance(entry: Entry, history: EventHistory) -> Entry:
    distance_s = (entry.at - history.emitted_at).total_seconds() if entry.at else 0
    return replace(entry, after_s=distance_s if distance_s > 0 else None)


def _log(history: EventHistory) -> Iterator[Entry]:
    by = f"by {history.producer}" if history.producer else ""
    yield Entry(history.emitted_at, "log", f"Published to {history.topic}", by)
    if history.appended_at is None:
        yield Entry(None, "log", "Waits in the outbox for the sequencer", mood="warn")
    else:
        yield Entry(
            history.appended_at, "log", f"In the log at position {history.position}, partition {history.partition}", mood="good"
        )
    if history.position is not None and history.evaluations and not history.passed:
        yield Entry(None, "rule", "The rules have not reached its position yet", mood="warn")
    elif history.appended_at is not None and history.evaluations:
        own = [evaluation for evaluation in history.evaluations if evaluation.event_type == history.type]
        fired = sum(evaluation.fired for evaluation in own)
        note = f"{len(own)} for its type, {fired} fired; the reasons are below"
        yield Entry(
            history.appended_at, "rule", f"{_count(len(history.evaluations), 'rule')} active at its position", note, url="#rules"
        )


def _rules(view: View, history: EventHistory) -> Iterator[Entry]:
    for firing in history.firings:
        place = "in the publisher's transaction" if firing.timing == "inline" else ""
        yield Entry(
            firing.fired_at,
            "rule",
            f"Rule {firing.rule}, version {firing.version}, fired: {firing.action}",
            place,
            "good",
            view.url(f"/rules/{quote(firing.rule)}"),
        )


def _outputs(view: View, part: HistoryPart) -> Iterator[Entry]:
    for output in part.history.outputs:
        became = f" → {output.becomes} {output.name}" if output.becomes else ""
        reason = "a timer ended; the event is part of its evidence" if output.timer else "completed by this event"
        url = view.url(f"/events/{output.output_id}" if output.becomes == "event" else f"/correlators/{quote(output.correlator)}")
        title = f"Correlator {output.correlator}, version {output.version}, pushed {output.token}{became}"
        # The key of a correlator may be computed from a hidden field; that of the event itself is shown anyway.
        is_shown = output.key == part.history.key or not part.hides_fields
        key = f"key {output.key}, " if output.key and is_shown else ""
        yield Entry(output.fired_at, "correlator", title, f"{key}{reason}", "good", url)
        if output.becomes == "action":
            attempts = [attempt for attempt in part.attempts if attempt.action_id == output.output_id]
            results = [result for result in part.results if result.action_id == output.output_id]
            yield from _attempts(view, str(output.output_id), attempts)
            yield from _results(view, str(output.output_id), results)
            if not results:
                yield _waiting(view, str(output.name), str(output.output_id), "retrying" if attempts else "waiting")


def _actions(view: View, history: EventHistory) -> Iterator[Entry]:
    for action in history.actions:
        action_id = str(action.firing.action_id)
        yield from _attempts(view, action_id, action.attempts)
        yield from _results(view, action_id, action.results)
        if action.state in ("waiting", "retrying", "redriven"):
            yield _waiting(view, action.firing.action, action_id, action.state)


def _attempts(view: View, action_id: str, attempts: Sequence[Attempt]) -> Iterator[Entry]:
    for attempt in attempts:
        limit = f" of {attempt.attempts_max}" if attempt.attempts_max else ""
        follows = f"next attempt at {attempt.retry_at:%H:%M:%S} UTC" if attempt.retry_at else f"then: {attempt.follows}"
        error = attempt.error.strip()
        yield Entry(
            attempt.failed_at,
            "action",
            f"Action {attempt.action}: attempt {attempt.attempt}{limit} failed",
            f"{error.splitlines()[-1] if error else ''} · {follows}",
            "bad",
            view.url(f"/actions/{action_id}"),
            attempt.traceback or (error if "\n" in error else ""),
        )


def _results(view: View, action_id: str, results: Sequence[Result]) -> Iterator[Entry]:
    words = {"done": "done", "dead": "became a dead letter", "discarded": "discarded", "cancelled": "cancelled"}
    for result in results:
        took = f"took {format_seconds(result.duration_s)}" if result.duration_s is not None else ""
        mood = "good" if result.outcome == "done" else "bad" if result.outcome == "dead" else "warn"
        yield Entry(
            result.ended_at,
            "action",
            f"Action {result.action} {words[result.outcome]}",
            took,
            mood,
            view.url(f"/actions/{action_id}"),
        )


def _waiting(view: View, action: str, action_id: str, state: str) -> Entry:
    note = {
        "waiting": "no attempt yet",
        "retrying": "waits for the next attempt",
        "redriven": "redriven, and in the queue again",
    }[state]
    return Entry(None, "action", f"Action {action} is in the queue", note, "warn", view.url(f"/actions/{action_id}"))


def _problems(history: EventHistory) -> Iterator[Entry]:
    for obstacle in history.obstacles:
        lines = obstacle.error.strip().splitlines()
        note = f"failed {_count(obstacle.failures, 'time')}: {lines[-1] if lines else ''}"
        details = obstacle.error if len(lines) > 1 else ""
        yield Entry(None, "problem", f"Held up by {obstacle.what}", note, "bad", details=details)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class _Builder:
    def __init__(self, view: View, conn: Connection) -> None:
        self._view = view
        self._conn = conn
        self._end = monotonic() + TREE_S
        self._nodes = 0

    def descendants(self, history: EventHistory, depth: int) -> list[TreeNode]:
        """What followed from an event."""
        nodes: list[TreeNode] = []
        states = {action.firing.action_id: action.state for action in history.actions}
        for firing in history.firings:
            action = TreeNode(
                "action", firing.action, self._view.url(f"/actions/{firing.action_id}"), states.get(firing.action_id, "")
            )
            nodes.append(TreeNode("rule", firing.rule, self._view.url(f"/rules/{quote(firing.rule)}"), children=[action]))
        for output in history.outputs:
            node = TreeNode(
                "correlator",
                f"{output.correlator} pushed {output.token}",
                self._view.url("/correlators", output.correlator),
            )
            if output.becomes == "action":
                node.children.append(TreeNode("action", str(output.name), self._view.url(f"/actions/{output.output_id}")))
            elif output.becomes == "event":
                node.children += self._events(output.output_id, str(output.name), depth + 1)
            nodes.append(node)
        self._nodes += len(nodes)
        return nodes[:NODES_MAX]

    def _events(self, event_id: UUID, name: str, depth: int) -> list[TreeNode]:
        """An event that a correlator published, with what followed from it."""
        url = self._view.url(f"/events/{event_id}")
        if depth > DEPTH_MAX or self._nodes > NODES_MAX or monotonic() > self._end:
            return [TreeNode("event", name, url, "more")]
        try:
            histories = event_history(self._conn, event_id, namespace=self._view.namespace)
        except UnknownEvent:
            return [TreeNode("event", name, url, "not there any more")]
        return [TreeNode("event", event_label(history), url, children=self.descendants(history, depth)) for history in histories]

    def ancestor(self, history: EventHistory, depth: int = 0) -> tuple[list[str], EventHistory | None]:
        """By what an event was caused, from its headers: the words for it, and the event."""
        event_id, words = self._cause(history)
        if event_id is None or depth > DEPTH_MAX:
            return words, None
        try:
            return words, event_history(self._conn, event_id, namespace=self._view.namespace)[0]
        except HeadraceError:
            return words, None

    def _cause(self, history: EventHistory) -> tuple[UUID | None, list[str]]:
        cause, origin = history.headers.get("cause"), history.headers.get(REPLAY_HEADER)
        # Headers come from whoever published the event: they may hold anything.
        if isinstance(cause, dict) and isinstance(cause.get("correlator"), str):
            return _uuid(cause.get("event_id")), ["correlator", f"{cause['correlator']} pushed {cause.get('token')}"]
        if isinstance(origin, str) and "/" in origin:
            topic, _, position = origin.rpartition("/")
            if (number := parse_position(position)) is not None:
                parameters = {"topic": topic, "namespace": self._view.namespace, "position": number}
                row = self._conn.execute(query("web/console/event_at"), parameters).fetchone()
                return (row[0] if row else None), ["published again from", origin]
        return None, []


def build_tree(view: View, conn: Connection, history: EventHistory) -> TreeNode:
    """The tree around an event, from the oldest cause that is known."""
    builder = _Builder(view, conn)
    node = TreeNode("event", event_label(history), is_here=True, children=builder.descendants(history, 0))
    current: EventHistory | None = history
    seen = {history.event_id}
    for depth in range(DEPTH_MAX):
        assert current is not None
        words, current = builder.ancestor(current, depth)
        if words:
            node = TreeNode(words[0], words[1], children=[node])
        if current is None or current.event_id in seen:
            break
        seen.add(current.event_id)
        node = TreeNode("event", event_label(current), view.url(f"/events/{current.event_id}"), children=[node])
    return node


def event_label(history: EventHistory) -> str:
    place = f"{history.topic}/{history.position}" if history.position is not None else f"{history.topic}, in the outbox"
    return f"{history.type} ({place})"


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


ROUTES = (read("/events/{event_id}", show_event),)
