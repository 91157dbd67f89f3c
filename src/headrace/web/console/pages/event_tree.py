"""Tree: what caused an event, and what it caused: events, firings, outputs and actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import quote
from uuid import UUID

from headrace.core import HeadraceError, UnknownEvent
from headrace.db import Connection, query
from headrace.log.archive import REPLAY_HEADER
from headrace.observe.history import EventHistory, event_history
from headrace.web.console.view import View

DEPTH_MAX = 6
NODES_MAX = 60
TREE_S = 0.06
"""The tree ends where reading it takes longer; every event in it leads on."""


@dataclass
class TreeNode:
    """A node of the tree."""

    kind: str
    label: str
    url: str = ""
    state: str = ""
    is_here: bool = False
    children: list[TreeNode] = field(default_factory=list)


class _Builder:
    def __init__(self, view: View, conn: Connection) -> None:
        self._view = view
        self._conn = conn
        self._end = monotonic() + TREE_S
        self._nodes = 0

    def descendants(self, history: EventHistory, depth: int) -> list[TreeNode]:
        """What followed from an event."""
        nodes: list[TreeNode] = []
        states = {action.firing.action_id: action.state for action in history.actions}
        for firing in history.firings:
            action = TreeNode(
                "action", firing.action, self._view.url(f"/actions/{firing.action_id}"), states.get(firing.action_id, "")
            )
            nodes.append(TreeNode("rule", firing.rule, self._view.url(f"/rules/{quote(firing.rule)}"), children=[action]))
        for output in history.outputs:
            node = TreeNode(
                "correlator",
                f"{output.correlator} pushed {output.token}",
                self._view.url(f"/correlators/{quote(output.correlator)}"),
            )
            if output.becomes == "action":
                node.children.append(TreeNode("action", str(output.name), self._view.url(f"/actions/{output.output_id}")))
            elif output.becomes == "event":
                node.children += self._events(output.output_id, str(output.name), depth + 1)
            nodes.append(node)
        self._nodes += len(nodes)
        return nodes[:NODES_MAX]

    def _events(self, event_id: UUID, name: str, depth: int) -> list[TreeNode]:
        """An event that a correlator published, with what followed from it."""
        url = self._view.url(f"/events/{event_id}")
        if depth > DEPTH_MAX or self._nodes > NODES_MAX or monotonic() > self._end:
            return [TreeNode("event", name, url, "more")]
        try:
            histories = event_history(self._conn, event_id, namespace=self._view.namespace)
        except UnknownEvent:
            return [TreeNode("event", name, url, "not there any more")]
        return [TreeNode("event", event_label(history), url, children=self.descendants(history, depth)) for history in histories]

    def ancestor(self, history: EventHistory, depth: int = 0) -> tuple[list[str], EventHistory | None]:
        """By what an event was caused, from its headers: the words for it, and the event."""
        event_id, words = self._cause(history)
        if event_id is None or depth > DEPTH_MAX:
            return words, None
        try:
            return words, event_history(self._conn, event_id, namespace=self._view.namespace)[0]
        except HeadraceError:
            return words, None

    def _cause(self, history: EventHistory) -> tuple[UUID | None, list[str]]:
        cause, origin = history.headers.get("cause"), history.headers.get(REPLAY_HEADER)
        # Headers come from whoever published the event: they may hold anything.
        if isinstance(cause, dict) and isinstance(cause.get("correlator"), str):
            return _uuid(cause.get("event_id")), ["correlator", f"{cause['correlator']} pushed {cause.get('token')}"]
        if isinstance(origin, str) and "/" in origin:
            topic, _, position = origin.rpartition("/")
            if position.isascii() and position.isdigit() and len(position) <= 18:
                parameters = {"topic": topic, "namespace": self._view.namespace, "position": int(position)}
                row = self._conn.execute(query("web/console/event_at"), parameters).fetchone()
                return (row[0] if row else None), ["published again from", origin]
        return None, []


def build_tree(view: View, conn: Connection, history: EventHistory) -> TreeNode:
    """The tree around an event, from the oldest cause that is known."""
    builder = _Builder(view, conn)
    node = TreeNode("event", event_label(history), is_here=True, children=builder.descendants(history, 0))
    current: EventHistory | None = history
    seen = {history.event_id}
    for depth in range(DEPTH_MAX):
        assert current is not None
        words, current = builder.ancestor(current, depth)
        if words:
            node = TreeNode(words[0], words[1], children=[node])
        if current is None or current.event_id in seen:
            break
        seen.add(current.event_id)
        node = TreeNode("event", event_label(current), view.url(f"/events/{current.event_id}"), children=[node])
    return node


def event_label(history: EventHistory) -> str:
    place = f"{history.topic}/{history.position}" if history.position is not None else f"{history.topic}, in the outbox"
    return f"{history.type} ({place})"


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None
