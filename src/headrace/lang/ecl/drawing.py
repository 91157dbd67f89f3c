"""Draws machines and tables as Mermaid or DOT text, or as SVG through Graphviz where it is installed.

Promises: any name or condition may be in a label: text is escaped."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, tostring

from headrace.core import print_duration
from headrace.lang.ecl.errors import DrawingError
from headrace.lang.ecl.machine import EPSILON, TIMER, Machine, Transition
from headrace.lang.ecl.network import Flat, Guard, Node
from headrace.lang.ecl.printer import print_predicate
from headrace.lang.ecl.table import Table
from headrace.lang.ecl.trace import describe_symbols

Form = Literal["mermaid", "dot", "svg"]
NODES_MAX = 2_000
NOTEBOOK_NODES_MAX = 100
SVG_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class _Dot:
    """A node: `shape` is round for states and places, box for transitions and units, double for finals."""

    name: str
    label: str
    shape: Literal["round", "box", "double"]
    start: bool = False


@dataclass(frozen=True, slots=True)
class _Graph:
    """Nodes, and edges with their labels."""

    nodes: list[_Dot] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)


def draw_machine(machine: Machine, *, form: Form = "mermaid") -> str:
    """Places are round, transitions boxes with their input and output; initial places are marked."""
    return _render(_machine_graph(machine), form)


def draw_table(table: Table, *, form: Form = "mermaid") -> str:
    """States are round, events and timers label the edges, outputs follow a slash. Nodes over units are boxes."""
    return _render(_table_graph(table), form)


def notebook_html(drawn: Machine | Table) -> str:
    """For a notebook: the pattern and its drawing, by Graphviz where it is installed, else the list of its edges."""
    graph = _machine_graph(drawn) if isinstance(drawn, Machine) else _table_graph(drawn)
    parent = Element("div")
    if isinstance(drawn, Table):
        SubElement(parent, "pre").text = drawn.pattern
    if len(graph.nodes) <= NOTEBOOK_NODES_MAX and shutil.which("dot") is not None:
        # The text of Graphviz is escaped by Graphviz; before the picture it has a header that is not for HTML.
        svg = _svg(_dot(graph))
        return tostring(parent, encoding="unicode", method="html") + svg[svg.index("<svg") :]
    labels = {node.name: f"▶ {node.label}" if node.start else node.label for node in graph.nodes}
    table = SubElement(parent, "table")
    for tag, row in [("th", ("from", "to", "on")), *(("td", edge) for edge in graph.edges[:NOTEBOOK_NODES_MAX])]:
        line = SubElement(table, "tr")
        for cell in row:
            SubElement(line, tag).text = labels.get(cell, cell) if tag == "td" else cell
    if len(graph.edges) > NOTEBOOK_NODES_MAX:
        SubElement(parent, "p").text = f"and {len(graph.edges) - NOTEBOOK_NODES_MAX} more"
    return tostring(parent, encoding="unicode", method="html")


def _render(graph: _Graph, form: Form) -> str:
    if len(graph.nodes) > NODES_MAX:
        raise DrawingError(f"the drawing has {len(graph.nodes)} nodes, allowed are {NODES_MAX}; draw a smaller pattern")
    if form == "mermaid":
        return _mermaid(graph)
    return _dot(graph) if form == "dot" else _svg(_dot(graph))


def _machine_graph(machine: Machine) -> _Graph:
    graph = _Graph()
    for place, name in enumerate(machine.names):
        final = {machine.success: "success", machine.failure: "failure"}.get(place)
        graph.nodes.append(_Dot(f"p{place}", final or name, "double" if final else "round", place in machine.initial))
    for number, transition in enumerate(machine.transitions):
        graph.nodes.append(_Dot(f"t{number}", _transition_label(transition), "box"))
        needed = frozenset[int]().union(*transition.enabled)
        graph.edges.extend((f"p{place}", f"t{number}", "") for place in sorted(needed))
        graph.edges.extend((f"t{number}", f"p{place}", "") for place in sorted(transition.target))
    return graph


def _transition_label(transition: Transition) -> str:
    shown = transition.label if transition.label in (EPSILON, TIMER) else print_predicate(transition.label)
    return f"{shown} / {transition.output}" if transition.output else str(shown)


def _table_graph(table: Table) -> _Graph:
    graph = _Graph()
    for index, unit in enumerate(table.units):
        match unit:
            case Flat():
                _draw_flat(graph, table, index, unit)
            case Guard():
                graph.nodes.append(_Dot(f"u{index}", "guards of modes", "box"))
            case Node():
                graph.nodes.append(_Dot(f"u{index}", _node_label(table, unit), "box"))
                for child in unit.children:
                    name = f"u{child}s0" if isinstance(table.units[child], Flat) else f"u{child}"
                    graph.edges.append((f"u{index}", name, ""))
    return graph


def _node_label(table: Table, unit: Node) -> str:
    bound = f"({unit.times})" if unit.times else f"({_token(table, unit.token)})" if unit.token >= 0 else ""
    return f"{unit.kind}{bound}"


def _draw_flat(graph: _Graph, table: Table, index: int, unit: Flat) -> None:
    edges: dict[tuple[int, int, int], list[str]] = {}
    symbols: dict[tuple[int, int, int], set[int]] = {}
    for state in range(unit.states):
        for symbol in range(unit.symbols):
            cell = state * unit.symbols + symbol
            following, action = unit.next[cell], unit.action[cell]
            if following != state or action:
                symbols.setdefault((state, following, action), set()).add(symbol)
    for edge, own in symbols.items():
        edges[edge] = describe_symbols(table.alphabets[unit.alphabet], own)
    for state, due, following, action in unit.ticks:
        timers = [f"after {print_duration(d)}" for timer, d in enumerate(table.timers) if due >> timer & 1]
        edges.setdefault((state, following, action), []).append(" with ".join(timers))
    reached = {0, *(following for _, following, _ in edges)}
    finals = {unit.states: "success", unit.states + 1: "failure"}
    graph.nodes.extend(_Dot(f"u{index}s{state}", str(state), "round", state == 0) for state in range(unit.states))
    graph.nodes.extend(_Dot(f"u{index}s{state}", name, "double") for state, name in finals.items() if state in reached)
    for (state, following, action), inputs in edges.items():
        pushed = ",".join(_token(table, token) for token in table.actions[action][0])
        text = " | ".join(inputs) + (f" / {pushed}" if pushed else "")
        graph.edges.append((f"u{index}s{state}", f"u{index}s{following}", text))


def _mermaid(graph: _Graph) -> str:
    opening = {"round": '(["', "box": '["', "double": '((("'}
    closing = {"round": '"])', "box": '"]', "double": '")))'}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        mark = "▶ " if node.start else ""
        lines.append(f"  {node.name}{opening[node.shape]}{mark}{_mermaid_text(node.label)}{closing[node.shape]}")
    for source, target, text in graph.edges:
        arrow = f'-->|"{_mermaid_text(text)}"|' if text else "-->"
        lines.append(f"  {source} {arrow} {target}")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Mermaid's own entity codes, for everything that could end a label or read as markup."""
    return "".join(char if char.isalnum() or char in " ._,/:-+=()▶ε" else f"#{ord(char)};" for char in text)


def _dot(graph: _Graph) -> str:
    shapes = {"round": "shape=circle", "box": "shape=box", "double": "shape=doublecircle"}
    lines = ["digraph ecl {", "  rankdir=LR;"]
    for node in graph.nodes:
        start = " style=bold" if node.start else ""
        lines.append(f'  {node.name} [label="{_dot_text(node.label)}" {shapes[node.shape]}{start}];')
    for source, target, text in graph.edges:
        lines.append(f'  {source} -> {target} [label="{_dot_text(text)}"];')
    return "\n".join([*lines, "}"]) + "\n"


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _svg(dot: str) -> str:
    program = shutil.which("dot")
    if program is None:
        raise DrawingError("SVG needs Graphviz, and its program `dot` is not on the path; install it, or draw as dot or mermaid")
    done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=SVG_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise DrawingError(f"`dot` ended with {done.returncode}: {done.stderr.strip()[:500]}")
    return done.stdout


def _token(table: Table, number: int) -> str:
    """A token, or the label that is recorded."""
    if number < len(table.tokens):
        return table.tokens[number]
    assert table.registers is not None
    return f"as {table.registers.labels[number - len(table.tokens)]}"
