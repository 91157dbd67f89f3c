"""Draws graphs, such as machines and tables, as Mermaid or DOT text, or as SVG through Graphviz where it is installed.

Promises: any name or condition may be in a label: text is escaped."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, tostring

from headrace.lang.ecl.errors import DrawingError

Form = Literal["mermaid", "dot", "svg"]
NODES_MAX = 2_000
NOTEBOOK_NODES_MAX = 100
SVG_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Dot:
    """A node: `shape` is round for states and places, box for transitions and units, double for finals."""

    name: str
    label: str
    shape: Literal["round", "box", "double"]
    start: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, and edges with their labels."""

    nodes: list[Dot] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)


def render(graph: Graph, form: Form) -> str:
    """The text of a drawing. Raises DrawingError for too many nodes, or for want of Graphviz."""
    if len(graph.nodes) > NODES_MAX:
        raise DrawingError(f"the drawing has {len(graph.nodes)} nodes, allowed are {NODES_MAX}; draw a smaller pattern")
    if form == "mermaid":
        return _mermaid(graph)
    return _dot(graph) if form == "dot" else _svg(_dot(graph))


def notebook_html(graph: Graph, heading: str | None = None) -> str:
    """For a notebook: the drawing, by Graphviz where it is installed, else the list of its edges."""
    parent = Element("div")
    if heading is not None:
        SubElement(parent, "pre").text = heading
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


def _mermaid(graph: Graph) -> str:
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


def _dot(graph: Graph) -> str:
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
