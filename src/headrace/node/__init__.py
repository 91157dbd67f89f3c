"""Node: composes the loops of an application and runs them on every database."""

from headrace.node._app import Headrace, On
from headrace.node._hands import Work
from headrace.node._list import NodeState, list_nodes
from headrace.node._node import Node
from headrace.node._registry import HEARTBEAT_S, Identity, Registry

__all__ = ["HEARTBEAT_S", "Headrace", "Identity", "Node", "NodeState", "On", "Registry", "Work", "list_nodes"]
