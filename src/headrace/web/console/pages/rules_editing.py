"""Create and edit a rule: first the plan, with a trial on the newest events, then apply."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast
from urllib.parse import quote

from starlette.responses import Response

from headrace.core import HeadraceError, Invalid, safe_line
from headrace.db import Connection
from headrace.definitions import list_actions, list_event_types
from headrace.definitions.schemas import Finding, find_in_conditions
from headrace.lang.condition import parse
from headrace.rules import Rule, RuleState, alter_rule, create_rule, get_rule, list_rules
from headrace.web.console.pages.editing import Plan, apply_plan, editing_routes, is_typed, topic_names, typed_value, whole_number
from headrace.web.console.pages.rule_trials import EVENTS, Trial, backtest_tables, find_backtest, run_trial, trial_table
from headrace.web.console.pages.versions import compare
from headrace.web.console.view import Done, Page, View

FIELDS = ("topic", "event_type", "condition", "action", "priority", "delay_s", "timing", "active")
TIMINGS = ("after", "inline")


@dataclass(frozen=True, kw_only=True)
class RulePlan(Plan):
    """What applying would change, and what the rule would have done."""

    rule: Rule
    trial: Trial | None


def create_form(view: View) -> Page | Response:
    """A new rule; with `plan` in the address also what it would do."""
    name = typed_value(view, "rule").strip()
    fields = {field: typed_value(view, field) for field in FIELDS}
    if not is_typed(view):
        fields |= {
            "condition": fields["condition"] or "true",
            "priority": "0",
            "delay_s": "0",
            "timing": "after",
            "active": "yes",
        }
    return _form_page(view, name, fields, None)


def edit_form(view: View) -> Page | Response:
    """A rule of today in a form; with `plan` in the address also what the change would do."""
    name = typed_value(view, "rule")
    states = view.each_shard(lambda conn: get_rule(conn, name, namespace=view.namespace))
    state = states[0][1]
    fields = {field: typed_value(view, field) for field in FIELDS} if is_typed(view) else _fields_of(state.rule)
    return _form_page(view, name, fields, state)


def apply_rule(view: View) -> Done:
    """Creates or changes the rule on every selected shard, if it is still the one that the plan has shown."""
    name = view.form.get("rule", "").strip()
    rule = _rule(name, {field: view.form.get(field, "") for field in FIELDS})
    own: dict[str, Any] = {"namespace": view.namespace}
    done = apply_plan(
        view,
        "rule",
        name,
        create=lambda conn: create_rule(conn, rule, **own),
        get=lambda conn: get_rule(conn, name, **own),
        alter=lambda conn, source: alter_rule(conn, rule, source=source, **own),
        state=lambda conn: _definition(conn, view, name),
    )
    return Done(f"{done}; a running node activates it within a second", view.url(f"/rules/{quote(name)}"))


def _definition(conn: Connection, view: View, name: str) -> object:
    states = list_rules(conn, name=name, namespace=view.namespace)
    return {"version": states[0].version, **asdict(states[0].rule)} if states else None


def _form_page(view: View, name: str, fields: dict[str, str], state: RuleState | None) -> Page:
    plan, backtest = None, None
    start = view.query.get("backtest", "").strip()
    if is_typed(view):
        try:
            plan = _plan(view, name, fields, state)
            if start and not view.form:
                backtest = find_backtest(view, plan.rule, state.rule if state else None, start)
        except HeadraceError as error:
            view.error = view.error or str(error)
    types = sorted({row["name"] for row in view.collect(lambda conn: list_event_types(conn, namespace=view.namespace))})
    actions = sorted({row["name"] for row in view.collect(lambda conn: list_actions(conn, namespace=view.namespace))})
    # Nodes report the actions they handle, whatever they are called: only what can be typed is suggested.
    actions = [name for name in actions if safe_line(name) == name]
    values = {
        "name": name,
        "fields": fields,
        "state": state,
        "plan": plan,
        "topics": topic_names(view),
        "types": types,
        "actions": actions,
        "timings": TIMINGS,
        "trial_events": EVENTS,
        "events": view.query.get("events", ""),
        "backtest": backtest,
        "backtest_from": start or "earliest",
        "commands": _backtest_commands(view, plan.rule) if plan else None,
        "address": "/rules/-/edit" if state else "/rules/-/create",
    }
    title = f"Edit {name}" if state else "Create a rule"
    tables = [trial_table(plan.trial)] if plan and plan.trial else []
    tables += backtest_tables(backtest) if backtest else ()
    return Page("rule_edit.html", title, tables=tables, values=values, is_live=backtest is not None and backtest.is_running)


def _plan(view: View, name: str, fields: Mapping[str, str], state: RuleState | None) -> RulePlan:
    """Checks the rule, compares it with the one of today, and tries it. Raises Invalid for what apply would reject."""
    rule = _rule(name, fields)
    parse(rule.condition)
    before = state.rule if state else None
    changes = compare(asdict(before), asdict(rule)) if before else []
    if view.query.get("live"):
        # Only a backtest is renewed while the page is open.
        return RulePlan(rule=rule, changes=changes, trial=None, findings=(), fields=fields)
    # Rolled back: the database says what is wrong with names and topics, as it will when the rule is applied.
    if state is None and not view.is_read_only:
        view.preview(lambda conn: create_rule(conn, rule, namespace=view.namespace))
    findings = find_on_shards(view, [(rule.event_type, rule.condition)])
    trial = run_trial(view, rule, before, view.query.get("events", ""))
    return RulePlan(rule=rule, changes=changes, trial=trial, findings=findings, fields=fields)


def find_on_shards(view: View, conditions: Sequence[tuple[str, str]]) -> list[Finding]:
    """What conditions (event type, text) read that the schemas do not have, each finding once."""
    by_shard = view.each_shard(lambda conn: find_in_conditions(conn, conditions, namespace=view.namespace))
    return list(dict.fromkeys(finding for _, findings in by_shard for _, finding in findings))


def _backtest_commands(view: View, rule: Rule) -> str:
    """The shell commands that run the rule over the whole past on Spark, and compare it with what was fired."""
    file = f"{rule.name.replace('/', '-').replace(' ', '-')}.yaml"
    lines = ["rules:", f"- name: {_yaml(rule.name)}"]
    lines += [f"  {field}: {_yaml(getattr(rule, field))}" for field in ("topic", "event_type", "condition", "action")]
    text = "\n".join(lines)
    return f"printf '%s\\n' {shlex.quote(text)} > {shlex.quote(file)}\n" + shlex.join(
        ["headrace", "backtest", "--rule", file, "--namespace", view.namespace]
    )


def _yaml(text: str) -> str:
    """A YAML string: quoted as JSON, which YAML reads too."""
    return json.dumps(text)


def _rule(name: str, fields: Mapping[str, str]) -> Rule:
    timing = fields["timing"] or "after"
    if timing not in TIMINGS:
        raise Invalid(f"timing is {' or '.join(TIMINGS)}, not {timing!r}")
    return Rule(
        name=name,
        topic=fields["topic"].strip(),
        event_type=fields["event_type"].strip(),
        # A browser sends line breaks as CR LF.
        condition=fields["condition"].replace("\r\n", "\n").strip() or "true",
        action=fields["action"].strip(),
        priority=whole_number(fields["priority"], "priority"),
        delay_s=whole_number(fields["delay_s"], "delay"),
        timing=cast("Literal['after', 'inline']", timing),
        active=fields["active"] != "no",
    )


def _fields_of(rule: Rule) -> dict[str, str]:
    fields = {field: str(getattr(rule, field)) for field in FIELDS}
    return fields | {"active": "yes" if rule.active else "no"}


ROUTES = editing_routes("/rules", create=create_form, edit=edit_form, apply=apply_rule)
