"""Event: the whole history of one event as a timeline, and the tree of what caused it and what it caused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
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
from headrace.web.console.tables import Column, Row, Table, to_row, wide
from headrace.web.console.texts import format_seconds
from headrace.web.console.view import Page, View

DEPTH_MAX = 6
NODES_MAX = 60
TREE_S = 0.06
"""The tree ends where reading it takes longer; every event in it leads on."""


@dataclass
class TreeNode:
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
    values = {"event_id": event_id, "parts": [_part(view, part) for part in histories], "is_archived": False}
    tables = (
        Table("rules", ("rule version event_type condition timing answer fired why",), evaluations),
        _consumer_table(view, histories),
        _timeline_table(view, histories),
    )
    return Page("event.html", f"Event {histories[0].history.type}", tables=tables, values=values)


def _read(view: View, conn: Connection, event_id: UUID) -> list[HistoryPart]:
    try:
        histories = event_history(conn, event_id, namespace=view.namespace)
    except UnknownEvent:
        return []
    return [_read_part(view, conn, history) for history in histories]


def _read_part(view: View, conn: Connection, history: EventHistory) -> HistoryPart:
    sent = [output.output_id for output in history.outputs if output.becomes == "action"]
    # Payload and headers with exact numbers.
    parameters = {"event_id": history.event_id, "topic": history.topic, "namespace": history.namespace}
    with map_database_errors():
        row = conn.execute(query("web/console/event_texts"), parameters).fetchone()
    payload, headers = (None, {}) if row is None else map(decode_json, row)
    masked = cast(Json, view.mask(cast(JSON, payload)))
    return HistoryPart(
        "",
        history,
        Sample(masked, history.type, history.key, headers if isinstance(headers, dict) else {}, history.emitted_at),
        is_masked=masked != payload,
        hides_fields=bool(view.hidden_fields),
        attempts=tuple(list_attempts(conn, sent, namespace=history.namespace) if sent else ()),
        results=tuple(list_results(conn, sent, namespace=history.namespace) if sent else ()),
        tree=build_tree(view, conn, history),
    )


def _part(view: View, part: HistoryPart) -> Row:
    history = part.history
    parameters = {"topic": history.topic, **view.on_shard(part.shard)}
    republish = None
    if history.position is not None and not part.is_masked:
        republish = view.url("/events/publish", **parameters, position=history.position)
    snippets = publish_snippets(view, history.topic, history.type, history.key, exact_json(part.sample.payload, indent=False))
    return {
        "shard": part.shard,
        "history": history,
        "facts": [
            ("Topic", history.topic),
            ("Position", "not in the log yet" if history.position is None else history.position),
            ("Partition", history.partition),
            *[("Type", history.type), ("Key", history.key), ("Outcome", history.outcome)],
            *[("Emitted", history.emitted_at), ("Appended", history.appended_at), ("Producer", history.producer)],
            ("Id", str(history.event_id)),
        ],
        "payload": exact_json(part.sample.payload),
        "headers": exact_json(dict(part.sample.headers)) if part.sample.headers else "",
        "entries": timeline(view, part),
        "tree": part.tree,
        "republish": republish,
        "snippets": [] if part.is_masked else snippets,
        "around": view.url("/events", **parameters, before=(history.position or 0) + 25),
        "same_key": view.url("/events", **parameters, key=history.key) if history.key else None,
        "is_masked": part.is_masked,
    }


def _evaluations(view: View, part: HistoryPart) -> list[Row]:
    """The rules that were active at the event's position: their answer, and the value of every clause."""
    rows: list[Row] = []
    for evaluation in part.history.evaluations:
        fits = evaluation.event_type == part.history.type
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
                "clauses": clause_rows(explain(parse(evaluation.condition), part.sample)) if fits else [],
            }
        )
    # Sort those that fired first, then those that were evaluated, then those for other types.
    return sorted(rows, key=lambda row: (not row["fired"], row["answer"] == "another type"))


def _why(evaluation: RuleEvaluation, part: HistoryPart, fits: bool) -> str:
    if evaluation.fired:
        return "fired"
    if not fits:
        return f"only looks at {evaluation.event_type}"
    if evaluation.answer is True:
        return "will fire when the rules reach it" if not part.history.passed else "true, but it was not active then"
    if evaluation.answer is False:
        return "the condition is false"
    return "the condition is unknown: a field is missing or of another type"


def _consumer_table(view: View, parts: list[HistoryPart]) -> Table:
    rows = [
        {"shard": part.shard, "topic": part.history.topic, **to_row(consumer)}
        for part in parts
        for consumer in part.history.consumers
    ]
    consumer = Column("consumer", link=view.link("/consumers", "topic", "consumer"))
    columns = (consumer, "state", Column("position", "cursor at"), "retry_at", wide("error"))
    text = "Its topic has no consumer."
    return Table("consumers", columns, rows, title="Consumers", empty_text=text, key=("topic", "consumer"))


def _timeline_table(view: View, parts: list[HistoryPart]) -> Table:
    rows = [
        {"shard": part.shard, "at": entry.at, "kind": entry.kind, "title": entry.title, "note": entry.note}
        for part in parts
        for entry in timeline(view, part)
    ]
    return Table("timeline", ("at kind title note",), rows)


def _show_archived(view: View, event_id: UUID) -> Page:
    """An event that only the archive has: its address names topic and position."""
    topic, position = view.query.get("topic", ""), parse_position(view.query.get("position", ""))
    found = find_stored_event(view, topic, position) if topic and position is not None else None
    if found is not None and found[1].event_id == event_id:
        event = to_shown(view, found[1], is_archived=True)
        facts = [("Topic", topic), ("Position", event.position), ("Type", event.type), ("Key", event.key)]
        facts += [("Emitted", event.emitted_at), ("Appended", event.appended_at), ("Producer", event.producer)]
        texts = {"payload": exact_json(event.payload), "headers": exact_json(dict(event.headers)) if event.headers else ""}
        values = {"event_id": event_id, "is_archived": True, "facts": facts, **texts, "shard": found[0]}
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
    distances = [((entry.at - history.emitted_at).total_seconds(), entry) for entry in entries if entry.at is not None]
    dated = [replace(entry, after_s=s if s > 0 else None) for s, entry in sorted(distances, key=itemgetter(0))]
    return [*dated, *(entry for entry in entries if entry.at is None)]


def _log(history: EventHistory) -> Iterator[Entry]:
    by = f"by {history.producer}" if history.producer else ""
    yield Entry(history.emitted_at, "log", f"Published to {history.topic}", by)
    if history.appended_at is None:
        yield Entry(None, "log", "Waits in the outbox for the sequencer", mood="warn")
    else:
        title = f"In the log at position {history.position}, partition {history.partition}"
        yield Entry(history.appended_at, "log", title, mood="good")
    if history.position is not None and history.evaluations and not history.passed:
        yield Entry(None, "rule", "The rules have not reached its position yet", mood="warn")
    elif history.appended_at is not None and history.evaluations:
        own = [evaluation for evaluation in history.evaluations if evaluation.event_type == history.type]
        fired = sum(evaluation.fired for evaluation in own)
        note = f"{len(own)} for its type, {fired} fired; the reasons are below"
        title = f"{_count(len(history.evaluations), 'rule')} active at its position"
        yield Entry(history.appended_at, "rule", title, note, url="#rules")


def _rules(view: View, history: EventHistory) -> Iterator[Entry]:
    for firing in history.firings:
        timing = "in the publisher's transaction" if firing.timing == "inline" else ""
        title = f"Rule {firing.rule}, version {firing.version}, fired: {firing.action}"
        yield Entry(firing.fired_at, "rule", title, timing, "good", view.url(f"/rules/{quote(firing.rule)}"))


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
            state = "done" if results else "retrying" if attempts else "waiting"
            yield from _action(view, str(output.name), str(output.output_id), attempts, results, state)


def _actions(view: View, history: EventHistory) -> Iterator[Entry]:
    for action in history.actions:
        firing = action.firing
        yield from _action(view, firing.action, str(firing.action_id), action.attempts, action.results, action.state)


def _action(
    view: View, name: str, action_id: str, attempts: Sequence[Attempt], results: Sequence[Result], state: str
) -> Iterator[Entry]:
    """The failed attempts of an action, how it ended, and what it waits for."""
    url = view.url(f"/actions/{action_id}")
    for attempt in attempts:
        limit = f" of {attempt.attempts_max}" if attempt.attempts_max else ""
        follows = f"next attempt at {attempt.retry_at:%H:%M:%S} UTC" if attempt.retry_at else f"then: {attempt.follows}"
        error = attempt.error.strip()
        title = f"Action {attempt.action}: attempt {attempt.attempt}{limit} failed"
        note = f"{error.splitlines()[-1] if error else ''} · {follows}"
        details = attempt.traceback or (error if "\n" in error else "")
        yield Entry(attempt.failed_at, "action", title, note, "bad", url, details)
    words = {"done": "done", "dead": "became a dead letter", "discarded": "discarded", "cancelled": "cancelled"}
    for result in results:
        took = f"took {format_seconds(result.duration_s)}" if result.duration_s is not None else ""
        mood = "good" if result.outcome == "done" else "bad" if result.outcome == "dead" else "warn"
        yield Entry(result.ended_at, "action", f"Action {result.action} {words[result.outcome]}", took, mood, url)
    waits = {
        "waiting": "no attempt yet",
        "retrying": "waits for the next attempt",
        "redriven": "redriven, and in the queue again",
    }
    if state in waits:
        yield Entry(None, "action", f"Action {name} is in the queue", waits[state], "warn", url)


def _problems(history: EventHistory) -> Iterator[Entry]:
    for obstacle in history.obstacles:
        lines = obstacle.error.strip().splitlines()
        note = f"failed {_count(obstacle.failures, 'time')}: {lines[-1] if lines else ''}"
        details = obstacle.error if len(lines) > 1 else ""
        yield Entry(None, "problem", f"Held up by {obstacle.what}", note, "bad", details=details)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass
class _Tree:
    """The tree while it is read: it ends where that takes too long, or it has too many nodes."""

    view: View
    conn: Connection
    end: float
    nodes: int = 0

    def descendants(self, history: EventHistory, depth: int) -> list[TreeNode]:
        """What followed from an event."""
        url = self.view.url
        nodes: list[TreeNode] = []
        states = {action.firing.action_id: action.state for action in history.actions}
        for firing in history.firings:
            state = states.get(firing.action_id, "")
            action = TreeNode("action", firing.action, url(f"/actions/{firing.action_id}"), state)
            nodes.append(TreeNode("rule", firing.rule, url(f"/rules/{quote(firing.rule)}"), children=[action]))
        for output in history.outputs:
            label = f"{output.correlator} pushed {output.token}"
            node = TreeNode("correlator", label, url("/correlators", output.correlator))
            if output.becomes == "action":
                node.children.append(TreeNode("action", str(output.name), url(f"/actions/{output.output_id}")))
            elif output.becomes == "event":
                node.children += self._events(output.output_id, str(output.name), depth + 1)
            nodes.append(node)
        self.nodes += len(nodes)
        return nodes[:NODES_MAX]

    def _events(self, event_id: UUID, name: str, depth: int) -> list[TreeNode]:
        """An event that a correlator published, with what followed from it."""
        url = self.view.url(f"/events/{event_id}")
        if depth > DEPTH_MAX or self.nodes > NODES_MAX or monotonic() > self.end:
            return [TreeNode("event", name, url, "more")]
        try:
            histories = event_history(self.conn, event_id, namespace=self.view.namespace)
        except UnknownEvent:
            return [TreeNode("event", name, url, "not there any more")]
        return [TreeNode("event", event_label(history), url, children=self.descendants(history, depth)) for history in histories]

    def cause(self, history: EventHistory) -> tuple[UUID | None, list[str]]:
        """By which event this one was caused, from its headers, and the words for it."""
        cause, origin = history.headers.get("cause"), history.headers.get(REPLAY_HEADER)
        # Headers come from whoever published the event: they may hold anything.
        if isinstance(cause, dict) and isinstance(cause.get("correlator"), str):
            words = ["correlator", f"{cause['correlator']} pushed {cause.get('token')}"]
            with suppress(ValueError):
                return UUID(str(cause.get("event_id"))), words
            return None, words
        if isinstance(origin, str) and "/" in origin:
            topic, _, position = origin.rpartition("/")
            if (number := parse_position(position)) is not None:
                parameters = {"topic": topic, "namespace": self.view.namespace, "position": number}
                row = self.conn.execute(query("web/console/event_at"), parameters).fetchone()
                return (row[0] if row else None), ["published again from", origin]
        return None, []


def build_tree(view: View, conn: Connection, history: EventHistory) -> TreeNode:
    """The tree around an event, from the oldest cause that is known."""
    tree = _Tree(view, conn, monotonic() + TREE_S)
    node = TreeNode("event", event_label(history), is_here=True, children=tree.descendants(history, 0))
    seen = {history.event_id}
    for _ in range(DEPTH_MAX):
        event_id, words = tree.cause(history)
        if words:
            node = TreeNode(words[0], words[1], children=[node])
        if event_id is None or event_id in seen:
            break
        seen.add(event_id)
        try:
            history = event_history(conn, event_id, namespace=view.namespace)[0]
        except HeadraceError:
            break
        node = TreeNode("event", event_label(history), view.url(f"/events/{event_id}"), children=[node])
    return node


def event_label(history: EventHistory) -> str:
    position = f"{history.topic}/{history.position}" if history.position is not None else f"{history.topic}, in the outbox"
    return f"{history.type} ({position})"


ROUTES = (read("/events/{event_id}", show_event),)
