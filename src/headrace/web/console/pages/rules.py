"""Rules: one with its firings over time; a trial on the newest events and a backtest over the past, beside the rule of today.

Nothing is fired. A trial asks the newest events of a topic, and names the clause that fails. A backtest reads the whole past of the topic,
archive and log as one. It runs in a thread of the console, in short reading transactions, and ends when nobody has looked at it for a
while. The page's address starts it and finds it again, so a backtest can be shared like any view."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from time import monotonic
from typing import Any

from headrace.core import Conflict, Invalid
from headrace.db import Connection, Target, parse_time
from headrace.definitions.schemas import Finding, find_in_conditions
from headrace.lang.condition import Condition, ConditionError, explain, parse, to_python
from headrace.log.archive import RowFilter, StoredRange, find_stored_range, read_stored_events
from headrace.rules import RULES, Rule, RuleState
from headrace.web.console.pages.definitions import DefinitionPages, Details, Plan
from headrace.web.console.pages.event_search import (
    EventFilter,
    EventReader,
    ShownEvent,
    answer_text,
    failing_clause,
    position_at,
    to_shown,
)
from headrace.web.console.site import Job
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import View

FIRINGS_MAX = 5_000
"""So many of the topic's newest firings are read for the chart of one rule."""
SHOWN_MAX = 20
BUCKETS = 60
WINDOW = 20_000
"""So many positions are read in one transaction."""
UNWATCHED_S = 120.0
"""A backtest that nobody has looked at for this time ends."""
RUNNING_MAX = 2
EVENTS = (100, 500, 1_000)
"""On how many of the newest events of its type a rule can be tried."""
TRIAL_ROWS_MAX = 15


class RulePages(DefinitionPages[Rule]):
    kind = RULES
    listed = ("topic", "event_type", "condition", "action")
    example = "headrace rule create large --topic orders --event-type order.placed --action REVIEW"
    plan_hint = "Shows what would change, and tries the rule. Nothing is changed yet."
    edit_hint = "It is active from the next position on."
    paused_hint = "it still fires, and its actions are held"
    drop_hint = "Its versions and firings stay on record."
    form_template = "rule_edit.html"

    def columns(self, view: View) -> list[Column | str]:
        return [Column("written_at", "changed", kind="time", wide=True)]

    def resumed_hint(self, count: int) -> str:
        return f"; {count} actions were held"

    def show_details(self, view: View, name: str, states: Sequence[tuple[str, RuleState]]) -> Details:
        firings = view.fetch("rule_firings", rule=name, limit=FIRINGS_MAX)
        values: dict[str, object] = {
            "series": [("firings", buckets([row["fired_at"] for row in firings], datetime.now(UTC)))] if firings else [],
            "firings_read": FIRINGS_MAX,
            "trial": None,
            "trial_events": EVENTS,
        }
        # The export has all of them.
        tables = [_firing_table(view, firings if view.query.get("format") else firings[:SHOWN_MAX])]
        if states:
            try:
                trial = run_trial(view, states[0][1].rule, None, view.query.get("events", ""))
            except ConditionError:
                # An invalid rule has no answers; the page shows its error.
                return tables, values
            return [*tables, trial_table(trial)], {**values, "trial": trial}
        return tables, values

    def find(self, view: View, definition: Rule) -> list[Finding]:
        return find_on_shards(view, [(definition.event_type, definition.condition)])

    def plan_details(self, view: View, definition: Rule, before: Rule | None) -> Details:
        details: dict[str, Any] = {"trial": None, "backtest": None, "is_running": False}
        tables: list[Table] = []
        if not view.query.get("live"):
            details["trial"] = run_trial(view, definition, before, view.query.get("events", ""))
            tables.append(trial_table(details["trial"]))
        start = view.query.get("backtest", "").strip()
        if start and not view.form:
            backtest = details["backtest"] = find_backtest(view, definition, before, start)
            # Before its tables are read: those of one that has ended are complete.
            details["is_running"] = backtest.is_running
            tables += backtest_tables(backtest)
        return tables, details

    def form_values(self, view: View, plan: Plan[Rule] | None) -> dict[str, object]:
        return {
            "trial_events": EVENTS,
            "events": view.query.get("events", ""),
            "backtest": plan.details["backtest"] if plan else None,
            "is_running": plan is not None and plan.details["is_running"],
            "backtest_from": view.query.get("backtest", "").strip() or "earliest",
            "commands": _backtest_commands(view, plan.definition) if plan else None,
        }

    def is_form_live(self, plan: Plan[Rule] | None) -> bool:
        return plan is not None and bool(plan.details["is_running"])


def find_on_shards(view: View, conditions: Sequence[tuple[str, str]]) -> list[Finding]:
    """What conditions (event type, text) read that the schemas do not have, each finding once."""
    by_shard = view.each_shard(view.bind(find_in_conditions, conditions))
    return list(dict.fromkeys(finding for _, findings in by_shard for _, finding in findings))


def buckets(times: Sequence[datetime], now: datetime) -> list[tuple[float, float]]:
    """How many fell into each of some equal parts of the time from the first until now."""
    seconds = [time.timestamp() for time in times]
    first, last = min(seconds), max(now.timestamp(), *seconds)
    width = max(1.0, (last - first) / BUCKETS)
    counts = Counter(int((second - first) // width) for second in seconds)
    # One empty part in front: the line starts at zero.
    return [(first + number * width, counts.get(number, 0)) for number in range(-1, int((last - first) // width) + 1)]


def _firing_table(view: View, rows: Sequence[Row]) -> Table:
    event = view.link("/events", "event_id")
    action, event_id = (
        Column("action", link=view.link("/actions", "action_id")),
        Column("event_id", "event", link=event, wide=True),
    )
    columns = ("fired_at", Column("position", link=event), "version", action, event_id)
    text = "It has not fired on the newest events of its topic."
    return Table("firings", columns, rows, title="Newest firings", empty_text=text, key=("position", "version"))


def _backtest_commands(view: View, rule: Rule) -> str:
    """The shell commands that run the rule over the whole past on Spark, and compare it with what was fired."""
    file = f"{rule.name.replace('/', '-').replace(' ', '-')}.yaml"
    # YAML reads strings that are quoted as JSON.
    lines = ["rules:", f"- name: {json.dumps(rule.name)}"]
    lines += [f"  {field}: {json.dumps(getattr(rule, field))}" for field in ("topic", "event_type", "condition", "action")]
    text = "\n".join(lines)
    return f"printf '%s\\n' {shlex.quote(text)} > {shlex.quote(file)}\n" + shlex.join(
        ["headrace", "backtest", "--rule", file, "--namespace", view.namespace]
    )


@dataclass
class Counts:
    """How often the tested condition is true (`would`), that of today (`now`), and both; `unknown`: of the tested one."""

    events: int = 0
    would: int = 0
    now: int = 0
    both: int = 0
    unknown: int = 0

    def count(self, answer: bool | None, live: bool) -> None:
        self.events += 1
        self.would += answer is True
        self.unknown += answer is None
        self.now += live
        self.both += live and answer is True


@dataclass
class Trial:
    """How often a condition is true on the newest events of a type, beside the one that is active now."""

    counts: Counts = field(default_factory=Counts)
    searched_to: int | None = None
    """The oldest position that was searched."""
    has_other: bool = False
    rows: list[Row] = field(default_factory=list)
    clauses: dict[str, int] = field(default_factory=dict)
    """How many events each clause has kept from firing."""
    limit: int = EVENTS[0]


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
        part = EventReader(view, conn, span, EventFilter(types=(rule.event_type,))).read(span.until, limit, descending=True)
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
    trial.counts.count(answer, live)
    failing = failing_clause(explain(condition, event.sample)) if answer is not True else None
    if failing is not None:
        trial.clauses[failing.text] = trial.clauses.get(failing.text, 0) + 1
    # First those whose answer changes, if there is another condition to compare with.
    if len(trial.rows) < TRIAL_ROWS_MAX or (trial.has_other and live != (answer is True)):
        text = answer_text(answer)
        trial.rows.append(
            {
                "shard": shard,
                "position": event.position,
                "event_id": event.event_id,
                "url": view.url(f"/events/{event.event_id}"),
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
        del trial.rows[TRIAL_ROWS_MAX:]


def trial_table(trial: Trial) -> Table:
    """The events of a trial, for its export; the page shows them with more colour."""
    names = "shard position event_id at key answer failing live is_changed"
    return Table("trial", (names,), [{name: row[name] for name in names.split()} for row in trial.rows])


class Backtest(Job):
    """A rule over the past of every selected shard, from the start to what was its end when the backtest began. Its total and what is
    done are counted in positions."""

    def __init__(self, view: View, rule: Rule, before: Rule | None, start: str) -> None:
        self._view = view
        self._rule = rule
        self._evaluate = to_python(parse(rule.condition))
        # The rule of today fires on its own topic and type only.
        fits = before is not None and (before.topic, before.event_type) == (rule.topic, rule.event_type)
        other = _parse(before) if before is not None and fits and before.active else None
        self._evaluate_now = to_python(other) if other else None
        self.has_other = before is not None
        """There is a rule of today to compare with."""
        self.counts = Counts()
        self.days: dict[date, Counts] = {}
        self.rows: list[Row] = []
        """The newest events that fire, or whose answer changes."""
        self._spans = [(target, self._find_span(target, start)) for target in view.targets]
        super().__init__(total=sum(span.until - span.first for _, span in self._spans))
        self.is_unwatched = False
        self.seconds = 0.0
        self._started_at = self.seen_at = monotonic()

    def _find_span(self, target: Target, start: str) -> StoredRange:
        with self._view.reading(target) as conn:
            span = find_stored_range(conn, self._rule.topic, namespace=self._view.namespace)
            if start in ("", "earliest"):
                return span
            if not start.isdigit():
                return replace(span, first=position_at(conn, span, parse_time(conn, start)))
        if len(self._view.targets) > 1:
            raise Invalid("each shard has its own positions; select a shard, or use a time")
        return replace(span, first=min(max(int(start[:18]), span.first), span.until))

    def run(self) -> None:
        rows = RowFilter(types=(self._rule.event_type,))
        for target, span in self._spans:
            for first in range(span.first, span.until, WINDOW):
                part = replace(span, first=first, until=min(first + WINDOW, span.until))
                with self._view.reading(target) as conn:
                    for stored in chain.from_iterable(read_stored_events(conn, part, rows=rows)):
                        self._try(target, to_shown(self._view, stored, is_archived=True))
                self.done += part.until - part.first
                self.seconds = monotonic() - self._started_at
                if monotonic() - self.seen_at > UNWATCHED_S:
                    self.is_unwatched = True
                    return

    def _try(self, target: Target, event: ShownEvent) -> None:
        # Over the payload without hidden fields: a condition must not tell what is in them.
        answer = self._evaluate(event.sample)
        live = self._evaluate_now is not None and self._evaluate_now(event.sample) is True
        self.counts.count(answer, live)
        self.days.setdefault(event.appended_at.date(), Counts()).count(answer, live)
        if (live != (answer is True)) if self.has_other else answer is True:
            parameters = {"topic": self._rule.topic, "position": event.position}
            row = {
                "shard": target.name,
                "position": event.position,
                "at": event.appended_at,
                "key": event.key,
                "change": "no more" if live else "new",
                "event_id": event.event_id,
                "url": self._view.url(f"/events/{event.event_id}", **self._view.on_shard(target.name), **parameters),
            }
            self.rows = [*self.rows, row][-TRIAL_ROWS_MAX:]


def find_backtest(view: View, rule: Rule, before: Rule | None, start: str) -> Backtest:
    """The backtest of this rule from a position or time on; it starts if there is none. Raises Conflict if too many run."""
    key = ("backtest", view.user.role, view.namespace, view.shard, rule, before, start)
    backtest = view.site.jobs.find(key)
    if not isinstance(backtest, Backtest) or (backtest.is_unwatched and not backtest.is_running):
        backtest = Backtest(view, rule, before, start)
        view.namespaces  # noqa: B018  Read now: the request is over when the thread needs the namespace.
        if not view.site.jobs.start(key, backtest, running_max=RUNNING_MAX):
            raise Conflict(f"{RUNNING_MAX} backtests are running in this console; wait for the end of one")
    backtest.seen_at = monotonic()
    return backtest


def backtest_tables(backtest: Backtest) -> tuple[Table, Table]:
    """What changes per day, and the newest events whose answer changes."""
    days = [
        {
            "day": day.isoformat(),
            "events": counts.events,
            "would": counts.would,
            "now": counts.now,
            "new": counts.would - counts.both,
            "no_more": counts.now - counts.both,
        }
        for day, counts in sorted(backtest.days.items(), reverse=True)
    ]
    other = (Column("now", "fires now"), "new no_more")
    columns = (Column("day", "day (UTC)"), "events", Column("would", "would fire"), *(other if backtest.has_other else ()))
    changes = (Column("position", link=lambda row: row["url"]), Column("at", "time"), "key")
    title = "Newest events whose answer changes" if backtest.has_other else "Newest events that would fire"
    empty = "No answer changes." if backtest.has_other else "It would not fire."
    return (
        Table("days", columns, days, title="By day", empty_text="There is no event of this type."),
        Table(
            "changes", (*changes, "change") if backtest.has_other else changes, backtest.rows[::-1], title=title, empty_text=empty
        ),
    )


def _parse(rule: Rule) -> Condition | None:
    try:
        return parse(rule.condition)
    except ConditionError:
        return None


ROUTES = RulePages().routes()
