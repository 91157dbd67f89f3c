"""Correlators: the automaton with its keys, one key, a stepper, create, and edit with the effect on the keys before it is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from urllib.parse import quote

from headrace import correlators
from headrace.actions import pause as pause_
from headrace.actions import resume as resume_
from headrace.core import Invalid
from headrace.db import Connection, query
from headrace.lang import ecl
from headrace.lang.condition import fields_of, parse_scalar
from headrace.lang.ecl import Trace
from headrace.web.console.pages.automaton_drawing import Drawing, draw_automaton
from headrace.web.console.pages.rules_editing import find_on_shards
from headrace.web.console.pages.versions import diff_lines
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table, to_row
from headrace.web.console.texts import MASK, format_number, format_seconds, is_hidden
from headrace.web.console.view import Done, Page, View

WAITS_MAX = 12
"""Classes of events that are listed; a pattern with many conditions has more than anybody reads."""
EVENTS_MAX = 200
OUTPUT_ROWS = 50
PASSAGES_EVERY_S = 10.0
"""How often the newest events are stepped through again to count passages."""


def list_correlators(view: View) -> Page:
    """All correlators of the namespace."""
    states = view.each_shard(lambda conn: correlators.list_correlators(conn, namespace=view.namespace))
    rows: list[Row] = [
        {
            "shard": shard,
            **asdict(state.correlator),
            "pattern_line": " ".join(state.correlator.pattern.split()),
            "outputs": _outputs_text(state.correlator),
            "status": "paused" if state.paused else state.status,
            "version": state.version,
            "error": state.error or state.warning,
        }
        for shard, found in states
        for state in found
    ]
    columns = (
        Column("name", "correlator", link=lambda row: correlator_url(view, row["name"])),
        Column("topic", link=lambda row: view.url(f"/topics/{quote(row['topic'], safe='')}")),
        Column("key", kind="code", wide=True),
        Column("pattern_line", "pattern", kind="code", wide=True),
        Column("outputs", wide=True),
        Column("status", kind="state"),
        Column("version", kind="number"),
        Column("error", "problem", wide=True),
    )
    empty = "headrace correlator create fraud --topic bank --pattern @fraud.ecl --action alarm=CALL"
    values = {"noun": "correlator", "create_url": view.url("/correlators/create")}
    return Page("list.html", "Correlators", tables=(Table("correlators", columns, rows, empty=empty),), values=values)


@dataclass(frozen=True)
class ShardState:
    """A correlator on one shard."""

    state: correlators.CorrelatorState
    compiled: bytes | None
    """The table that runs; None until a node has compiled it."""
    keys: Mapping[tuple[int, ...], int]
    """How many keys stand where."""
    key: correlators.KeyState | None
    """The key that is looked at."""
    passages: correlators.Passages | None


def show_correlator(view: View) -> Page:
    """One correlator: its automaton with the keys in each state, one key, its newest outputs, a stepper."""
    name = view.path["correlator"]
    hides_keys = _hides_keys(view, name)
    key = None if hides_keys else view.query.get("key")
    shards = [shard for _, shard in view.each_shard(lambda conn: _read(conn, view, name, key))]
    states = [shard.state for shard in shards]
    correlator = states[0].correlator
    known = [shard.key for shard in shards if shard.key is not None]
    chosen = next((state for state in known if state.known), known[0] if known else None)
    compiled = next((shard.compiled for shard in shards if shard.compiled is not None), None)
    table = ecl.from_json(compiled) if compiled else ecl.compile(ecl.parse(correlator.pattern))
    outputs = view.collect(
        lambda conn: correlators.list_correlations(conn, name, key=key or None, limit=OUTPUT_ROWS, namespace=view.namespace)
    )
    keys: Counter[tuple[int, ...]] = Counter()
    passages: Counter[tuple[int, int, int]] = Counter()
    for shard in shards:
        keys.update(shard.keys)
        passages.update(shard.passages.counts if shard.passages else {})
    drawing = draw_automaton(table, keys, passages, chosen.units if chosen else ())
    values = {
        "state": states[0],
        "correlator": correlator,
        "is_paused": any(state.paused for state in states),
        "drawing": drawing,
        "passages": _passages_text([shard.passages for shard in shards]),
        "keys": keys.total(),
        "key": key or "",
        "chosen": chosen,
        "hides_keys": hides_keys,
        "kept": _kept_values(view, chosen) if chosen else [],
        "waits": describe_waits(chosen.waits_for.events) if chosen else [],
        "shortest": describe_trace(chosen.shortest) if chosen else None,
        "events": view.query.get("events", "").strip(),
        "base": f"/correlators/{quote(name, safe='')}",
        "facts": [
            ("Topic", correlator.topic),
            ("Key", correlator.key or "all events together"),
            ("Outputs", _outputs_text(correlator)),
            ("Version", states[0].version),
            ("Since", states[0].written_at),
            ("Keys", keys.total()),
        ],
    }
    tables = [_outputs_table(view, [{**row, "key": MASK} if hides_keys else row for row in outputs[::-1]])]
    if drawing:
        tables.append(_edges_table(drawing))
    if values["events"]:
        tables.append(_steps_table(correlator.pattern, str(values["events"])))
    return Page("correlator.html", name, tables=tables, values=values)


def _hides_keys(view: View, name: str) -> bool:
    """True if the keys of a correlator are computed from a field that this person must not see."""
    if not view.hidden_fields:
        return False
    found = view.each_shard(lambda conn: correlators.get_correlator(conn, name, namespace=view.namespace).correlator.key)
    fields = [field for _, key in found if key is not None for field in fields_of(parse_scalar(key))]
    paths = [[step for step in field.path if isinstance(step, str)] for field in fields if field.root == "object"]
    return any(is_hidden(path, view.hidden_fields) for path in paths)


def _kept_values(view: View, key: correlators.KeyState) -> list[tuple[str, object]]:
    """What a pattern that keeps values has kept; of several instances with their number."""
    return [
        (name if len(key.captured) == 1 else f"{name}, instance {number}", MASK if view.hidden_fields else str(value))
        for number, captured in enumerate(key.captured, 1)
        for name, value in captured.items()
        if value is not None
    ]


def _read(conn: Connection, view: View, name: str, key: str | None) -> ShardState:
    parameters = {"correlator": name, "namespace": view.namespace}
    state = correlators.get_correlator(conn, name, namespace=view.namespace)
    running = conn.execute(query("correlators/running_table"), parameters).fetchone()
    instances = conn.execute(query("correlators/instance_counts"), parameters).fetchall()
    return ShardState(
        state,
        running[0] if running else None,
        {tuple(units): count for units, count in instances},
        None if key is None else correlators.key_state(conn, name, key, namespace=view.namespace),
        view.site.cached(
            ("passages", view.user.role, view.namespace, conn.info.dsn, name, state.version),
            PASSAGES_EVERY_S,
            lambda: correlators.count_passages(conn, name, namespace=view.namespace),
        ),
    )


def _passages_text(passages: Sequence[correlators.Passages | None]) -> str:
    """What the numbers at the arrows count."""
    counted = [part for part in passages if part is not None]
    events, keys = sum(part.events for part in counted), sum(part.keys for part in counted)
    if not events:
        return ""
    scope = "all" if all(part.is_whole for part in counted) else "the newest"
    since = "" if scope == "all" else "; each key counts from its first event there"
    return f"× how often keys took an edge: {scope} {format_number(events)} events, {format_number(keys)} keys{since}."


def describe_waits(events: Sequence[str]) -> list[str]:
    """The classes of events that change a state."""
    left = len(events) - WAITS_MAX
    return [*events[:WAITS_MAX], *([f"and {left} more"] if left > 0 else [])]


def describe_trace(trace: Trace | None) -> list[str] | None:
    """A trace step by step; None where no output can be reached, empty where it is reached already."""
    if trace is None:
        return None
    texts = []
    for step in trace.steps:
        pushed = ", ".join(output.token for output in step.outputs)
        text = f"nothing more until {format_seconds(step.time / 1_000_000)} from now" if step.type is None else str(step)
        texts.append(f"{text} → {pushed}" if pushed and step.type is None else text)
    runs = [(text, len(list(run))) for text, run in groupby(texts)]
    return [text if count == 1 else f"{count} × {text}" for text, count in runs]


def _outputs_table(view: View, rows: list[Row]) -> Table:
    columns = (
        Column("output_at", "at", kind="time"),
        Column("key", link=lambda row: None if row["key"] == MASK else correlator_url(view, row["correlator"], key=row["key"])),
        Column("token"),
        Column("name", "became"),
        Column("position", kind="number", wide=True, hint="Empty: a timer"),
        Column("evidence", "evidence (positions)", wide=True),
        Column("version", kind="number", wide=True),
    )
    return Table(
        "outputs",
        columns,
        rows,
        title="Newest outputs",
        empty_text="It has pushed nothing yet.",
        key=("output_at", "key", "token"),
    )


def _edges_table(drawing: Drawing) -> Table:
    columns = (
        Column("edge", kind="number"),
        Column("source", "from state"),
        Column("target", "to state"),
        Column("label", "on", kind="code"),
        Column("passed", kind="number", hint="How often keys took it, by the newest events"),
    )
    return Table("edges", columns, [to_row(edge) for edge in drawing.edges], title="Edges", empty_text="It has no edges.")


def _steps_table(pattern: str, text: str) -> Table:
    """What a fresh key does with a typed sequence of events."""
    events = ecl.parse_events(text)
    if len(events) > EVENTS_MAX:
        raise Invalid(f"{len(events)} events; the stepper takes {EVENTS_MAX}")
    steps = ecl.run_events(ecl.parse(pattern), events)
    rows = [
        {
            "step": number,
            "event": step.event.type,
            "at_s": step.event.time / 1_000_000,
            "outputs": ", ".join(output.token for output in step.outputs) or None,
            "moved": step.changed,
            "status": str(step.status),
            "state": ", ".join(map(str, step.state.units)),
        }
        for number, step in enumerate(steps, 1)
    ]
    columns = (
        Column("step", kind="number"),
        Column("event"),
        Column("at_s", "at", kind="seconds"),
        Column("moved"),
        Column("state", "state after"),
        Column("status", kind="state"),
        Column("outputs", "pushed"),
    )
    return Table("steps", columns, rows, title="Steps")


def pause(view: View) -> Done:
    name = view.path["correlator"]
    is_pause = view.form.get("what") != "resume"
    call = pause_ if is_pause else resume_
    view.change(
        f"correlator.{'pause' if is_pause else 'resume'}",
        name,
        lambda conn: int(call(conn, "correlator", name, namespace=view.namespace)),
    )
    return Done(f"correlator {name} {'is paused' if is_pause else 'goes on'}", correlator_url(view, name))


def edit_form(view: View) -> Page:
    """The form of a correlator; for a new one it is empty."""
    name = view.path.get("correlator")
    stored = None
    if name:
        with view.reading(view.targets[0]) as conn:
            stored = correlators.get_correlator(conn, name, namespace=view.namespace).correlator
    values = {
        "name": name,
        "fields": {**_fields(stored), **view.form},
        "diff": None,
        "effect": None,
        "base": f"/correlators/{quote(name, safe='')}" if name else "/correlators/create",
    }
    return Page("correlator_edit.html", f"Edit {name}" if name else "Create a correlator", values=values, is_live=False)


def edit(view: View) -> Done | Page:
    """Shows what an edit means for the keys, then applies it."""
    name = view.path["correlator"]
    if view.form.get("step") != "apply":
        effects = view.preview(lambda conn: _alter(conn, view, name))
        carried, restarted = (sum(getattr(effect, field) for _, effect in effects) for field in ("carried", "restarted"))
        page = edit_form(view)
        with view.reading(view.targets[0]) as conn:
            before = correlators.get_correlator(conn, name, namespace=view.namespace).correlator
        after = _changed(view, before)
        diff = diff_lines(_text(before), _text(after))
        findings = find_on_shards(view, ecl.typed_conditions(ecl.parse(after.pattern)))
        return replace(page, values={**page.values, "diff": diff, "effect": (carried, restarted), "findings": findings})
    effects = view.change(
        "correlator.alter",
        name,
        lambda conn: _alter(conn, view, name),
        state=lambda conn: _text(correlators.get_correlator(conn, name, namespace=view.namespace).correlator),
    )
    carried, restarted = (sum(getattr(effect, field) for _, effect in effects) for field in ("carried", "restarted"))
    return Done(f"correlator {name} changed: {carried} keys carried, {restarted} restarted", correlator_url(view, name))


def create(view: View) -> Done:
    name = view.form.get("name", "").strip()
    empty = correlators.Correlator(name=name, topic=view.form.get("topic", "").strip(), pattern="")
    correlator = _changed(view, empty)
    view.change(
        "correlator.create",
        name,
        lambda conn: correlators.create_correlator(conn, correlator, namespace=view.namespace),
        details=_text(correlator),
    )
    return Done(f"correlator {name} created; a running node activates it within a second", correlator_url(view, name))


def _alter(conn: Connection, view: View, name: str) -> correlators.KeyEffect:
    state = correlators.get_correlator(conn, name, namespace=view.namespace)
    return correlators.alter_correlator(conn, _changed(view, state.correlator), namespace=view.namespace, source=state.source)


def _changed(view: View, before: correlators.Correlator) -> correlators.Correlator:
    form = view.form
    return replace(
        before,
        pattern=form.get("pattern", "").replace("\r\n", "\n"),
        key=form.get("key", "").strip() or None,
        outputs=_outputs(form.get("outputs", ""), before),
    )


def _outputs(text: str, before: correlators.Correlator) -> dict[str, correlators.Output]:
    """Lines such as `alarm=CALL` (an action) and `late=orders/order.late` (an event). An unchanged line keeps its options."""
    kept = dict(zip(_output_lines(before), before.outputs.items(), strict=True))
    outputs: dict[str, correlators.Output] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        token, equals, target = (part.strip() for part in line.partition("="))
        topic, slash, type_ = target.partition("/")
        if not (token and equals and target) or (slash and not (topic and type_)):
            raise Invalid(f"output {line!r}: write TOKEN=ACTION or TOKEN=TOPIC/TYPE")
        new: correlators.Output = (
            correlators.EventOutput(event=type_, topic=topic) if slash else correlators.ActionOutput(action=target)
        )
        outputs[token] = kept[f"{token}={target}"][1] if f"{token}={target}" in kept else new
    return outputs


def _output_lines(correlator: correlators.Correlator) -> list[str]:
    return [
        f"{token}={output.action if isinstance(output, correlators.ActionOutput) else f'{output.topic}/{output.event}'}"
        for token, output in correlator.outputs.items()
    ]


def _outputs_text(correlator: correlators.Correlator) -> str:
    return ", ".join(line.replace("=", " → ", 1) for line in _output_lines(correlator))


def _fields(correlator: correlators.Correlator | None) -> dict[str, str]:
    if correlator is None:
        return {"name": "", "topic": "", "pattern": "", "key": "", "outputs": ""}
    lines = "\n".join(_output_lines(correlator))
    return {
        "name": correlator.name,
        "topic": correlator.topic,
        "pattern": correlator.pattern,
        "key": correlator.key or "",
        "outputs": lines,
    }


def _text(correlator: correlators.Correlator) -> str:
    return "\n".join([correlator.pattern, f"key: {correlator.key or '(none)'}", *_output_lines(correlator)])


def correlator_url(view: View, name: str, *, key: str | None = None) -> str:
    return view.url(f"/correlators/{quote(name, safe='')}", key=key)


ROUTES = (
    read("/correlators", list_correlators),
    read("/correlators/create", edit_form),
    change("/correlators/create", create, form=edit_form),
    read("/correlators/{correlator}", show_correlator),
    read("/correlators/{correlator}/edit", edit_form),
    change("/correlators/{correlator}/edit", edit, form=edit_form),
    change("/correlators/{correlator}/pause", pause, form=show_correlator),
)
