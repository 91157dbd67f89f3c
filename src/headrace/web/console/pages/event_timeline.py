"""Timeline: what happened to an event, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from headrace.actions import Attempt, Result
from headrace.lang.condition import Sample
from headrace.observe.history import EventHistory
from headrace.web.console.pages.event_tree import TreeNode
from headrace.web.console.texts import format_seconds
from headrace.web.console.view import View


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
