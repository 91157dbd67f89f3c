"""Correlators: the automaton with its keys, one key, a stepper; the plan shows the effect of a change on the keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from headrace import correlators
from headrace.core import Invalid
from headrace.correlators import CORRELATORS, Correlator, CorrelatorState
from headrace.db import Connection, query
from headrace.definitions import Field
from headrace.definitions.schemas import Finding
from headrace.lang import ecl
from headrace.lang.condition import fields_of, parse_scalar
from headrace.lang.ecl import Trace
from headrace.web.console.pages.definitions import DefinitionPages, Details
from headrace.web.console.pages.rules import find_on_shards
from headrace.web.console.tables import Column, Row, Table, wide
from headrace.web.console.texts import MASK, format_number, format_seconds, is_hidden
from headrace.web.console.view import View

WAITS_MAX = 12
"""Classes of events that are listed; a pattern with many conditions has more than anybody reads."""
EVENTS_MAX = 200
OUTPUT_ROWS = 50
TRANSITIONS_EVERY_S = 10.0
"""How often the newest events are stepped through again to count transitions."""
GAP_X, GAP_Y, RADIUS, MARGIN = 220, 112, 22, 48
BACK_Y = 26
"""Distance between edges that lead back."""
LABEL_MAX = 28
"""Characters that fit beside an edge."""
STATES_MAX = 60
"""A larger automaton cannot be read; its text still can."""


@dataclass(frozen=True)
class Drawing:
    """The automaton as shapes of an SVG: states in columns by their distance from the start. Only values for a template: nothing here writes
    markup, so any name or condition may be in a label."""

    width: int
    height: int
    circles: Sequence[Row]
    """The states, each with the number of keys that stand in it."""
    arrows: Sequence[Row]
    """The edges, each with its path, its label, and how often keys passed it. A long label is a number; the table of edges has its text."""
    edges: Sequence[Row]
    """In words: the number of the edge, the states it connects, what leads along it."""


@dataclass(frozen=True)
class ShardState:
    state: correlators.CorrelatorState
    compiled: bytes | None
    """The table that runs; None until a node has compiled it."""
    keys: Mapping[tuple[int, ...], int]
    """How many keys stand where."""
    key: correlators.KeyState | None
    """The key that is looked at."""
    transitions: correlators.TransitionCounts | None


class CorrelatorPages(DefinitionPages[Correlator]):
    kind = CORRELATORS
    listed = ("topic", "key", "pattern", "outputs")
    example = "headrace correlator create fraud --topic bank --pattern @fraud.ecl --action alarm=CALL"
    edit_hint = "It is active from the next position on."
    drop_hint = "Its keys go with it; its versions and outputs stay on record."

    def list_value(self, field: Field, value: Any) -> Any:
        if field.name == "outputs":
            return ", ".join(line.replace("=", " → ", 1) for line in _output_lines(value))
        return super().list_value(field, value)

    def to_text(self, field: Field, value: Any) -> str:
        return "\n".join(_output_lines(value)) if field.name == "outputs" else super().to_text(field, value)

    def from_text(self, field: Field, text: str, before: Correlator | None) -> Any:
        if field.name == "outputs":
            return _outputs(text, before.outputs if before else {})
        return super().from_text(field, text, before)

    def hint(self, field: Field) -> str:
        return "One a line: TOKEN=ACTION, or TOKEN=TOPIC/TYPE for an event." if field.name == "outputs" else super().hint(field)

    def describe_effect(self, counts: Mapping[str, int]) -> Row:
        text = f"{counts['carried']} keys carried, {counts['restarted']} restarted"
        return {"text": text, "mood": "warn" if counts["restarted"] else "good"}

    def find(self, view: View, definition: Correlator) -> list[Finding]:
        return find_on_shards(view, ecl.typed_conditions(ecl.parse(definition.pattern)))

    def show_details(self, view: View, name: str, states: Sequence[tuple[str, CorrelatorState]]) -> Details:
        hides_keys = _hides_keys(view, [state.correlator for _, state in states])
        key = None if hides_keys else view.query.get("key")
        outputs = view.collect(view.bind(correlators.list_correlations, name, key=key or None, limit=OUTPUT_ROWS))
        tables = [_outputs_table(view, [{**row, "key": MASK} if hides_keys else row for row in outputs[::-1]])]
        values: dict[str, object] = {"key": key or "", "hides_keys": hides_keys, "events": view.query.get("events", "").strip()}
        if not states:
            return tables, {**values, "drawing": None, "chosen": None}
        shards = [shard for _, shard in view.each_shard(lambda conn: _read(conn, view, name, key))]
        known = [shard.key for shard in shards if shard.key is not None]
        chosen = next((state for state in known if state.known), known[0] if known else None)
        compiled = next((shard.compiled for shard in shards if shard.compiled is not None), None)
        correlator = shards[0].state.correlator
        table = ecl.from_json(compiled) if compiled else ecl.compile(ecl.parse(correlator.pattern))
        keys: Counter[tuple[int, ...]] = Counter()
        transitions: Counter[tuple[int, int, int]] = Counter()
        for shard in shards:
            keys.update(shard.keys)
            transitions.update(shard.transitions.counts if shard.transitions else {})
        drawing = draw_automaton(table, keys, transitions, chosen.units if chosen else ())
        waits = list(chosen.waits_for.events) if chosen else []
        values |= {
            "drawing": drawing,
            "transitions": _transitions_text([shard.transitions for shard in shards]),
            "keys": keys.total(),
            "chosen": chosen,
            "kept": _kept_values(view, chosen) if chosen else [],
            "waits": waits[:WAITS_MAX] + [f"and {len(waits) - WAITS_MAX} more"] * (len(waits) > WAITS_MAX),
            "shortest": describe_trace(chosen.shortest) if chosen else None,
        }
        if drawing:
            tables.append(_edges_table(drawing))
        if values["events"]:
            tables.append(_steps_table(correlator.pattern, str(values["events"])))
        return tables, values


def _hides_keys(view: View, found: Sequence[Correlator]) -> bool:
    """True if the keys of a correlator are computed from a field that this person must not see; of a dropped one nobody knows."""
    if not view.hidden_fields or not found:
        return bool(view.hidden_fields)
    fields = [field for correlator in found if correlator.key is not None for field in fields_of(parse_scalar(correlator.key))]
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
            ("transitions", view.user.role, view.namespace, conn.info.dsn, name, state.version),
            TRANSITIONS_EVERY_S,
            lambda: correlators.count_transitions(conn, name, namespace=view.namespace),
        ),
    )


def _transitions_text(transitions: Sequence[correlators.TransitionCounts | None]) -> str:
    """What the numbers at the arrows count."""
    counted = [part for part in transitions if part is not None]
    events, keys = sum(part.events for part in counted), sum(part.keys for part in counted)
    if not events:
        return ""
    scope = "all" if all(part.is_complete for part in counted) else "the newest"
    since = "" if scope == "all" else "; each key counts from its first event there"
    return f"× how often keys took an edge: {scope} {format_number(events)} events, {format_number(keys)} keys{since}."


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
    key = Column(
        "key", link=lambda row: None if row["key"] == MASK else view.url("/correlators", row["correlator"], key=row["key"])
    )
    position, evidence = (
        Column("position", wide=True, hint="Empty: a timer"),
        Column("evidence", "evidence (positions)", wide=True),
    )
    columns = (Column("output_at", "at"), key, "token", Column("name", "became"), position, evidence, wide("version"))
    text = "It has pushed nothing yet."
    return Table("outputs", columns, rows, title="Newest outputs", empty_text=text, key=("output_at", "key", "token"))


def _edges_table(drawing: Drawing) -> Table:
    passed = Column("passed", hint="How often keys took it, by the newest events")
    columns = ("edge", Column("source", "from state"), Column("target", "to state"), Column("label", "on", kind="code"), passed)
    return Table("edges", columns, drawing.edges, title="Edges", empty_text="It has no edges.")


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
    state, status = Column("state", "state after", kind="text"), Column("status", kind="state")
    columns = ("step event", Column("at_s", "at"), "moved", state, status, Column("outputs", "pushed"))
    return Table("steps", columns, rows, title="Steps")


def _outputs(text: str, before: Mapping[str, correlators.Output]) -> dict[str, correlators.Output]:
    """Lines such as `alarm=CALL` (an action) and `late=orders/order.late` (an event). An unchanged line keeps its options."""
    kept = dict(zip(_output_lines(before), before.items(), strict=True))
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


def _output_lines(outputs: Mapping[str, correlators.Output]) -> list[str]:
    return [
        f"{token}={output.action if isinstance(output, correlators.ActionOutput) else f'{output.topic}/{output.event}'}"
        for token, output in outputs.items()
    ]


def draw_automaton(
    table: ecl.Table,
    keys: Mapping[tuple[int, ...], int],
    transitions: Mapping[tuple[int, int, int], int],
    here: Sequence[int] = (),
) -> Drawing | None:
    """The drawing; None where the automaton is too large to be read.

    Not by a library of graph layout: those of a browser leave a page without JavaScript empty, and those of Python need Graphviz or numpy.
    So few states need columns by distance, and no more.

    `keys`: how many stand where; `transitions`: how often an edge was passed; `here`: the units of the key that is marked."""
    graph = ecl.table_graph(table)
    nodes, edges = {node.name: node for node in graph.nodes}, graph.edges
    if len(nodes) > STATES_MAX:
        return None
    counts: Counter[str] = Counter()
    for units, count in keys.items():
        counts.update({f"u{unit}s{state}": count for unit, state in enumerate(units)})
    marked = {f"u{unit}s{state}" for unit, state in enumerate(here)}
    places = _place_states(list(nodes), edges)
    circles = []
    for name, node in nodes.items():
        css = "state" + " start" * node.start + " here" * (name in marked) + " final" * (node.label in ("success", "failure"))
        # The number of keys is above the circle, where edges arrive least; below, where an edge leads back to it.
        y = places[name][1] + (36 if any(source == target == name for source, target, _ in edges) else -28)
        x, middle = places[name]
        circles.append({"x": x, "y": middle, "label": node.label, "count": counts[name], "keys_y": y, "css": css})
    # One arrow for all edges between two states: several would lie on each other.
    labels: dict[tuple[str, str], list[str]] = {}
    for source, target, text in edges:
        labels.setdefault((source, target), []).append(text)
    passed = {(f"u{unit}s{source}", f"u{unit}s{target}"): count for (unit, source, target), count in transitions.items()}
    arrows, rows = [], []
    backs = 0
    for number, ((source, target), texts) in enumerate(labels.items(), 1):
        label, count = "; ".join(texts), passed.get((source, target), 0)
        backs += places[target][0] <= places[source][0] and source != target
        shown = label if len(label) <= LABEL_MAX else f"edge {number}"
        arrows.append({**_arrow(places[source], places[target], backs), "label": shown, "passed": count})
        ends = {"source": nodes[source].label, "target": nodes[target].label}
        rows.append({"edge": number, **ends, "label": label, "passed": count})
    width = max(x for x, _ in places.values()) + GAP_X
    height = max(y for _, y in places.values()) + MARGIN + 2 * RADIUS + BACK_Y * max(backs - 1, 0)
    return Drawing(width, height, circles, arrows, rows)


def _place_states(names: Sequence[str], edges: Sequence[tuple[str, str, str]]) -> dict[str, tuple[int, int]]:
    """Each state in the column of its distance from a state that nothing else leads to."""
    places: dict[str, tuple[int, int]] = {}
    rows: Counter[int] = Counter()
    for start in names:
        waiting = [] if start in places else [(start, 0)]
        while waiting:
            name, column = waiting.pop(0)
            if name in places:
                continue
            places[name] = (MARGIN + column * GAP_X, MARGIN + 24 + rows[column] * GAP_Y)
            rows[column] += 1
            waiting += [(target, column + 1) for source, target, _ in edges if source == name]
    return places


def _arrow(source: tuple[int, int], target: tuple[int, int], backs: int) -> Row:
    """The path, and the place of its label. `backs`: how many edges before lead back, below which this one has to pass."""
    (x1, y1), (x2, y2) = source, target
    if source == target:
        path = f"M{x1 - 8},{y1 - 20} C{x1 - 24},{y1 - 58} {x1 + 24},{y1 - 58} {x1 + 8},{y1 - 20}"
        return {"path": path, "x": x1 + 20, "y": y1 - 38}
    if x2 > x1:
        path = f"M{x1 + RADIUS},{y1} C{x1 + 90},{y1} {x2 - 90},{y2} {x2 - RADIUS - 6},{y2}"
        return {"path": path, "x": x1 + RADIUS + 8, "y": (y1 * 2 + y2) // 3 - 6}
    low = max(y1, y2) + 64 + BACK_Y * (backs - 1)
    path = f"M{x1 - 12},{y1 + RADIUS - 3} C{x1 - 30},{low} {x2 + 30},{low} {x2 + 14},{y2 + RADIUS + 2}"
    return {"path": path, "x": (x1 + x2) // 2 - 40, "y": low + 4}


ROUTES = CorrelatorPages().routes()
