"""What happened to an event: its timeline, and the tree of what caused it and what it caused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from urllib.parse import quote
from uuid import UUID

from headrace.actions import Attempt, Result
from headrace.core import HeadraceError, UnknownEvent
from headrace.db import Connection, query
from headrace.lang.condition import Sample
from headrace.log.archive import REPLAY_HEADER
from headrace.observe.history import EventHistory, event_history
from headrace.web.console.texts import format_seconds
from headrace.web.console.view import View

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


def timeline(view: View | None, part: HistoryPart) -> list[Entry]:
    """Everything that is known of an event, oldest first; what waits is at the end. Without a view there are no addresses."""
    history = part.history
    entries = [*_log(history), *_rules(view, history), *_outputs(view, part), *_actions(view, history), *_problems(history)]
    dated = sorted((entry for entry in entries if entry.at is not None), key=lambda entry: entry.at or history.emitted_at)
    waiting = [entry for entry in entries if entry.at is None]
    return [_with_distance(entry, history) for entry in dated] + waiting


def _with_distance(entry: Entry, history: EventHistory) -> Entry:
    assert entry.at is not None
    distance = (entry.at - history.emitted_at).total_seconds()
    return Entry(**{**entry.__dict__, "after_s": distance if distance > 0 else None})


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


def _rules(view: View | None, history: EventHistory) -> Iterator[Entry]:
    for firing in history.firings:
        place = "in the publisher's transaction" if firing.timing == "inline" else ""
        yield Entry(
            firing.fired_at,
            "rule",
            f"Rule {firing.rule}, version {firing.version}, fired: {firing.action}",
            place,
            "good",
            view.url(f"/rules/{quote(firing.rule)}") if view else "",
        )


def _outputs(view: View | None, part: HistoryPart) -> Iterator[Entry]:
    for output in part.history.outputs:
        became = f" → {output.becomes} {output.name}" if output.becomes else ""
        reason = "a timer ended; the event is part of its evidence" if output.timer else "completed by this event"
        url = ""
        if view:
            url = view.url(f"/correlators/{quote(output.correlator)}")
            if output.becomes == "event":
                url = view.url(f"/events/{output.output_id}")
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


def _actions(view: View | None, history: EventHistory) -> Iterator[Entry]:
    for action in history.actions:
        action_id = str(action.firing.action_id)
        yield from _attempts(view, action_id, action.attempts)
        yield from _results(view, action_id, action.results)
        if action.state in ("waiting", "retrying", "redriven"):
            yield _waiting(view, action.firing.action, action_id, action.state)


def _attempts(view: View | None, action_id: str, attempts: Sequence[Attempt]) -> Iterator[Entry]:
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
            _action_url(view, action_id),
            attempt.traceback or (error if "\n" in error else ""),
        )


def _results(view: View | None, action_id: str, results: Sequence[Result]) -> Iterator[Entry]:
    words = {"done": "done", "dead": "became a dead letter", "discarded": "discarded", "cancelled": "cancelled"}
    for result in results:
        took = f"took {format_seconds(result.duration_s)}" if result.duration_s is not None else ""
        mood = "good" if result.outcome == "done" else "bad" if result.outcome == "dead" else "warn"
        yield Entry(
            result.ended_at, "action", f"Action {result.action} {words[result.outcome]}", took, mood, _action_url(view, action_id)
        )


def _waiting(view: View | None, action: str, action_id: str, state: str) -> Entry:
    note = {
        "waiting": "no attempt yet",
        "retrying": "waits for the next attempt",
        "redriven": "redriven, and in the queue again",
    }[state]
    return Entry(None, "action", f"Action {action} is in the queue", note, "warn", _action_url(view, action_id))


def _problems(history: EventHistory) -> Iterator[Entry]:
    for obstacle in history.obstacles:
        note = f"failed {_count(obstacle.failures, 'time')}: {obstacle.error.strip().splitlines()[-1] if obstacle.error.strip() else ''}"
        yield Entry(
            None,
            "problem",
            f"Held up by {obstacle.what}",
            note,
            "bad",
            "",
            obstacle.error if "\n" in obstacle.error.strip() else "",
        )


def _action_url(view: View | None, action_id: str) -> str:
    return view.url(f"/actions/{action_id}") if view else ""


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
                self._view.url(f"/correlators/{quote(output.correlator)}"),
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
            if position.isascii() and position.isdigit() and len(position) <= 18:
                parameters = {"topic": topic, "namespace": self._view.namespace, "position": int(position)}
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
