"""Trial: what a condition would do on the newest events of a topic, with the clause that fails. Nothing is fired."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from headrace.db import Connection
from headrace.lang.condition import Condition, ConditionError, explain, parse, to_python
from headrace.log.archive import find_stored_range
from headrace.rules import Rule
from headrace.web.console.pages.events_reading import EventFilter, EventReader, ShownEvent
from headrace.web.console.pages.events_words import answer_text, failing_clause
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import View

EVENTS = (100, 500, 1_000)
"""On how many of the newest events of its type a rule can be tried."""
SHOWN_MAX = 15


@dataclass
class Trial:
    """How often a condition is true on the newest events of a type, beside the one that is active now."""

    events: int = 0
    searched_to: int | None = None
    """The oldest position that was searched."""
    would: int = 0
    unknown: int = 0
    now: int = 0
    """How often the condition of today is true."""
    both: int = 0
    has_other: bool = False
    rows: list[Row] = field(default_factory=list)
    clauses: dict[str, int] = field(default_factory=dict)
    """How many events each clause has kept from firing."""
    limit: int = EVENTS[0]


def trial_values(trial: Trial | None = None) -> dict[str, object]:
    return {"trial": trial, "trial_events": EVENTS}


def run_trial(view: View, rule: Rule, before: Rule | None, events: str) -> Trial:
    """Tries a rule on the newest events of its type, on every selected shard. Raises ConditionError, UnknownTopic."""
    limit = int(events) if events in map(str, EVENTS) else EVENTS[0]
    condition = parse(rule.condition)
    trial = Trial(limit=limit)
    other = _parse(before) if before and before.topic == rule.topic else None
    trial.has_other = other is not None
    fits = before is not None and before.event_type == rule.event_type

    def read_newest(conn: Connection) -> tuple[list[ShownEvent], int | None]:
        span = find_stored_range(conn, rule.topic, namespace=view.namespace)
        part = EventReader(view, conn, span, EventFilter(types=(rule.event_type,))).backward(span.until, limit)
        return part.events, part.next_position

    for shard, (shown, position) in view.each_shard(read_newest):
        trial.searched_to = position
        for event in shown:
            _try(view, trial, shard, event, condition, other if fits else None)
    trial.clauses = dict(sorted(trial.clauses.items(), key=lambda item: -item[1])[:5])
    return trial


def _try(view: View, trial: Trial, shard: str, event: ShownEvent, condition: Condition, other: Condition | None) -> None:
    answer = to_python(condition)(event.sample)
    live = to_python(other)(event.sample) is True if other else False
    trial.events += 1
    trial.would += answer is True
    trial.unknown += answer is None
    trial.now += live
    trial.both += live and answer is True
    failing = failing_clause(explain(condition, event.sample)) if answer is not True else None
    if failing is not None:
        trial.clauses[failing.text] = trial.clauses.get(failing.text, 0) + 1
    # First those whose answer changes, if there is another condition to compare with.
    if len(trial.rows) < SHOWN_MAX or (trial.has_other and live != (answer is True)):
        text = answer_text(answer)
        trial.rows.append(
            {
                "shard": shard,
                "position": event.position,
                "event_id": event.event_id,
                "url": view.url(f"/events/{quote(str(event.event_id))}"),
                "at": event.appended_at,
                "key": event.key,
                "answer": text.text,
                "mood": text.kind,
                "failing": failing.text if failing else "",
                "operands": [part for part in failing.parts if part.value not in ("true", "false")] if failing else [],
                "live": live,
                "is_changed": trial.has_other and live != (answer is True),
            }
        )
        trial.rows.sort(key=lambda row: (not row["is_changed"], -row["position"]))
        del trial.rows[SHOWN_MAX:]


def trial_table(trial: Trial) -> Table:
    """The events of a trial, for its export; the page shows them with more colour."""
    names = ("shard", "position", "event_id", "at", "key", "answer", "failing", "live", "is_changed")
    return Table("trial", tuple(map(Column, names)), [{name: row[name] for name in names} for row in trial.rows])


def _parse(rule: Rule) -> Condition | None:
    try:
        return parse(rule.condition)
    except ConditionError:
        return None
