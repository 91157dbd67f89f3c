"""The automaton of a correlator as shapes of an SVG: states in columns by their distance from the start.

Only values for a template: nothing here writes markup, so any name or condition may be in a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.lang.ecl import Table, table_graph

GAP_X, GAP_Y, RADIUS, MARGIN = 220, 112, 22, 48
BACK_Y = 26
"""Distance between edges that lead back."""
LABEL_MAX = 28
"""Characters that fit beside an edge."""
STATES_MAX = 60
"""A larger automaton cannot be read; its text still can."""


@dataclass(frozen=True)
class Circle:
    """A state with the number of keys that stand in it."""

    x: int
    y: int
    label: str
    keys: int
    keys_y: int
    css: str


@dataclass(frozen=True)
class Arrow:
    """An edge: its path, its label, and how often keys passed it. A long label is a number; the table of edges has its text."""

    path: str
    x: int
    y: int
    label: str
    passed: int


@dataclass(frozen=True)
class EdgeRow:
    """An edge in words: its number in the drawing, the states it connects, what leads along it."""

    edge: int
    source: str
    target: str
    label: str
    passed: int


@dataclass(frozen=True)
class Drawing:
    width: int
    height: int
    circles: Sequence[Circle]
    arrows: Sequence[Arrow]
    edges: Sequence[EdgeRow]


def draw_automaton(
    table: Table,
    keys: Mapping[tuple[int, ...], int],
    passages: Mapping[tuple[int, int, int], int],
    here: Sequence[int] = (),
) -> Drawing | None:
    """The drawing; None where the automaton is too large to be read.

    `keys`: how many stand where; `passages`: how often an edge was passed; `here`: the units of the key that is marked."""
    graph = table_graph(table)
    nodes, edges = {node.name: node for node in graph.nodes}, graph.edges
    if len(nodes) > STATES_MAX:
        return None
    counts = _keys_by_state(keys)
    marked = {f"u{unit}s{state}" for unit, state in enumerate(here)}
    places = _places(list(nodes), edges)
    circles = []
    for name, node in nodes.items():
        css = "state" + " start" * node.start + " here" * (name in marked) + " final" * (node.label in ("success", "failure"))
        # The number of keys is above the circle, where edges arrive least; below, where an edge leads back to it.
        y = places[name][1] + (36 if any(source == target == name for source, target, _ in edges) else -28)
        circles.append(Circle(*places[name], node.label, counts.get(name, 0), y, css))
    # One arrow for all edges between two states: several would lie on each other.
    labels: dict[tuple[str, str], list[str]] = {}
    for source, target, text in edges:
        labels.setdefault((source, target), []).append(text)
    passed = {(f"u{unit}s{source}", f"u{unit}s{target}"): count for (unit, source, target), count in passages.items()}
    arrows, rows = [], []
    backs = 0
    for number, ((source, target), texts) in enumerate(labels.items(), 1):
        label, count = "; ".join(texts), passed.get((source, target), 0)
        backs += places[target][0] <= places[source][0] and source != target
        shown = label if len(label) <= LABEL_MAX else f"edge {number}"
        arrows.append(_arrow(places[source], places[target], shown, count, backs))
        rows.append(EdgeRow(number, nodes[source].label, nodes[target].label, label, count))
    width = max(x for x, _ in places.values()) + GAP_X
    height = max(y for _, y in places.values()) + MARGIN + 2 * RADIUS + BACK_Y * max(backs - 1, 0)
    return Drawing(width, height, circles, arrows, rows)


def _keys_by_state(keys: Mapping[tuple[int, ...], int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for units, count in keys.items():
        for unit, state in enumerate(units):
            counts[f"u{unit}s{state}"] = counts.get(f"u{unit}s{state}", 0) + count
    return counts


def _places(names: Sequence[str], edges: Sequence[tuple[str, str, str]]) -> dict[str, tuple[int, int]]:
    """Each state in the column of its distance from a state that nothing else leads to."""
    places: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = {}
    for start in names:
        waiting = [] if start in places else [(start, 0)]
        while waiting:
            name, column = waiting.pop(0)
            if name in places:
                continue
            row = rows.get(column, 0)
            rows[column] = row + 1
            places[name] = (MARGIN + column * GAP_X, MARGIN + 24 + row * GAP_Y)
            waiting += [(target, column + 1) for source, target, _ in edges if source == name]
    return places


def _arrow(source: tuple[int, int], target: tuple[int, int], label: str, passed: int, backs: int) -> Arrow:
    """`backs`: how many edges before lead back, below which this one has to pass."""
    (x1, y1), (x2, y2) = source, target
    if source == target:
        path = f"M{x1 - 8},{y1 - 20} C{x1 - 24},{y1 - 58} {x1 + 24},{y1 - 58} {x1 + 8},{y1 - 20}"
        return Arrow(path, x1 + 20, y1 - 38, label, passed)
    if x2 > x1:
        path = f"M{x1 + RADIUS},{y1} C{x1 + 90},{y1} {x2 - 90},{y2} {x2 - RADIUS - 6},{y2}"
        return Arrow(path, x1 + RADIUS + 8, (y1 * 2 + y2) // 3 - 6, label, passed)
    low = max(y1, y2) + 64 + BACK_Y * (backs - 1)
    path = f"M{x1 - 12},{y1 + RADIUS - 3} C{x1 - 30},{low} {x2 + 30},{low} {x2 + 14},{y2 + RADIUS + 2}"
    return Arrow(path, (x1 + x2) // 2 - 40, low + 4, label, passed)
