"""Rules: all of them, and one with its versions, its firings over time, and a trial on the newest events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import UUID

from headrace.actions import Pause, list_pauses
from headrace.actions import pause as pause_
from headrace.actions import resume as resume_
from headrace.core import Invalid
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import ConditionError
from headrace.rules import RuleState, get_rule, list_rule_versions, list_rules
from headrace.web.console.pages import rules_editing
from headrace.web.console.pages.rule_trials import Trial, run_trial, trial_table, trial_values
from headrace.web.console.pages.versions import describe_versions, version_table
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import Done, Page, View

FIRINGS_MAX = 5_000
"""So many of the topic's newest firings are read for the chart of one rule."""
SHOWN_MAX = 20
BUCKETS = 60


def list_all(view: View) -> Page:
    """All rules of the namespace."""
    rows = view.collect(lambda conn: [_summary(state) for state in list_rules(conn, namespace=view.namespace)])
    columns = (
        Column("rule", link=lambda row: rule_url(view, row["rule"])),
        Column("state", kind="state"),
        Column("topic", link=lambda row: view.url(f"/topics/{quote(row['topic'], safe='')}")),
        Column("event_type", "event type"),
        Column("condition", kind="code", wide=True),
        Column("action"),
        Column("version", kind="number", wide=True),
        Column("written_at", "changed", kind="time", wide=True),
        Column("problem", wide=True),
    )
    empty = "headrace rule create large --topic orders --event-type order.placed --action REVIEW"
    table = Table("rules", columns, rows, empty=empty, empty_text="There is no rule yet.")
    values = {"noun": "rule", "create_url": view.url("/rules/-/create")}
    return Page("list.html", "Rules", tables=(table,), values=values)


def _summary(state: RuleState) -> Row:
    rule = state.rule
    problem = (state.error or state.warning or "").strip()
    return {
        "rule": rule.name,
        "state": state_word(state),
        "topic": rule.topic,
        "event_type": rule.event_type,
        "condition": rule.condition,
        "action": rule.action,
        "priority": rule.priority,
        "delay_s": rule.delay_s,
        "timing": rule.timing,
        "version": state.version,
        "source": state.source,
        "written_at": state.written_at,
        "written_by": state.written_by,
        "problem": problem.splitlines()[0] if problem else None,
    }


def state_word(state: RuleState) -> str:
    """One word: a problem first, then what an operator did."""
    if state.status == "invalid":
        return "invalid"
    if state.paused:
        return "paused"
    if not state.rule.active:
        return "not active"
    return "pending" if state.status == "pending" else "active"


def show_rule(view: View) -> Page:
    """One rule."""
    name = view.path["rule"]
    states = view.each_shard(lambda conn: list_rules(conn, name=name, namespace=view.namespace))
    present = [(shard, rules[0]) for shard, rules in states if rules]
    versions = view.each_shard(lambda conn: list_rule_versions(conn, name, namespace=view.namespace))
    firings = [
        {"shard": shard, **row} for shard, rows in view.each_shard(lambda conn: _firings(conn, view, name)) for row in rows
    ]
    pauses = [pause for _, parts in view.each_shard(lambda conn: _pauses(conn, view, name)) for pause in parts]
    trial = trial_values()
    if present:
        trial = _trial(view, present[0][1])
    values = {
        "name": name,
        "state": present[0][1] if present else None,
        "word": state_word(present[0][1]) if present else "dropped",
        "facts": _facts(present[0][1]) if present else [],
        "versions": describe_versions(versions[0][1]),
        "series": [("firings", buckets([row["fired_at"] for row in firings], datetime.now(UTC)))] if firings else [],
        "firings_read": FIRINGS_MAX,
        "pauses": pauses,
        "topic": present[0][1].rule.topic if present else versions[0][1][-1].topic,
        **trial,
    }
    # The export has all of them.
    tables = [_firing_table(view, firings if view.query.get("format") else firings[:SHOWN_MAX]), version_table(versions[0][1])]
    tables += [trial_table(done)] if isinstance(done := trial["trial"], Trial) else []
    return Page("rule.html", name, tables=tables, values=values)


def _trial(view: View, state: RuleState) -> dict[str, object]:
    try:
        return trial_values(run_trial(view, state.rule, None, view.query.get("events", "")))
    except ConditionError:
        # An invalid rule has no answers; the page shows its error.
        return trial_values()


def _facts(state: RuleState) -> list[tuple[str, object]]:
    rule = state.rule
    return [
        ("Topic", rule.topic),
        ("Event type", rule.event_type),
        ("Action", rule.action),
        ("Timing", "after the log" if rule.timing == "after" else "in the publisher's transaction"),
        ("Priority", rule.priority),
        ("Delay", f"{rule.delay_s} s" if rule.delay_s else "none"),
        ("Version", state.version),
        ("Active from position", state.since_position),
        ("Changed", state.written_at),
        ("By", state.written_by),
        ("Managed by", state.source),
    ]


def _firings(conn: Connection, view: View, name: str) -> list[Row]:
    parameters = {"rule": name, "namespace": view.namespace, "limit": FIRINGS_MAX}
    with map_database_errors():
        rows = conn.execute(query("web/console/rule_firings"), parameters).fetchall()
    names = ("fired_at", "position", "event_id", "version", "action", "action_id")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _pauses(conn: Connection, view: View, name: str) -> list[Pause]:
    return [pause for pause in list_pauses(conn, namespace=view.namespace) if (pause.kind, pause.name) == ("rule", name)]


def buckets(times: Sequence[datetime], now: datetime) -> list[tuple[float, float]]:
    """How many fell into each of some equal parts of the time from the first until now."""
    seconds = [time.timestamp() for time in times]
    first, last = min(seconds), max(now.timestamp(), *seconds)
    width = max(1.0, (last - first) / BUCKETS)
    counts = Counter(int((second - first) // width) for second in seconds)
    # One empty part in front: the line starts at zero.
    return [(first + number * width, counts.get(number, 0)) for number in range(-1, int((last - first) // width) + 1)]


def _firing_table(view: View, rows: Sequence[Row]) -> Table:
    def event(row: Row) -> str:
        chosen: UUID = row["event_id"]
        return view.url(f"/events/{chosen}")

    columns = (
        Column("fired_at", "fired", kind="time"),
        Column("position", kind="number", link=event),
        Column("version", kind="number"),
        Column("action", link=lambda row: view.url(f"/actions/{row['action_id']}")),
        Column("event_id", "event", link=event, wide=True),
    )
    return Table(
        "firings",
        columns,
        rows,
        title="Newest firings",
        empty_text="It has not fired on the newest events of its topic.",
        key=("position", "version"),
    )


def pause_rule(view: View) -> Done:
    """Pauses a rule: it still fires, and its actions are held."""
    name = _form_name(view)
    reason = view.form.get("reason", "").strip() or None
    view.change(
        "rule.pause",
        name,
        lambda conn: pause_(conn, "rule", name, reason=reason, namespace=view.namespace),
        state=lambda conn: _state(conn, view, name),
        details={"reason": reason},
    )
    return Done(f"rule {name} is paused: it still fires, and its actions are held", rule_url(view, name))


def resume_rule(view: View) -> Done:
    """Lets a paused rule go on, with the actions that were held."""
    name = _form_name(view)
    counts = view.change(
        "rule.resume",
        name,
        lambda conn: resume_(conn, "rule", name, namespace=view.namespace),
        state=lambda conn: _state(conn, view, name),
    )
    held = sum(count for _, count in counts)
    return Done(f"rule {name} goes on; {held} actions were held", rule_url(view, name))


def _state(conn: Connection, view: View, name: str) -> object:
    state = get_rule(conn, name, namespace=view.namespace)
    return {"state": state_word(state), "version": state.version}


def _form_name(view: View) -> str:
    name = view.form.get("rule", "")
    if not name:
        raise Invalid("name the rule")
    return name


def _form_page(view: View) -> Page:
    """The page that shows an error of pause or resume."""
    view.request.path_params["rule"] = _form_name(view)
    return show_rule(view)


def rule_url(view: View, name: str) -> str:
    return view.url(f"/rules/{quote(name)}")


# A name of a rule starts with a letter or _, and may have slashes: `-` keeps the other pages apart.
ROUTES = (
    read("/rules", list_all),
    change("/rules/-/pause", pause_rule, form=_form_page),
    change("/rules/-/resume", resume_rule, form=_form_page),
    *rules_editing.ROUTES,
    read("/rules/{rule:path}", show_rule),
)
