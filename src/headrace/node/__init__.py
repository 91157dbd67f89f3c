"""Node: composes the loops of an application and runs them on every database."""

from headrace.node.action_workers import Work
from headrace.node.app import Headrace, On
from headrace.node.event_loop import new_loop, run_loop
from headrace.node.node import Node
from headrace.node.node_list import NodeState, list_nodes
from headrace.node.registry import HEARTBEAT_S, Identity, Registry

__all__ = [
    "HEARTBEAT_S",
    "Headrace",
    "Identity",
    "Node",
    "NodeState",
    "On",
    "Registry",
    "Work",
    "list_nodes",
    "new_loop",
    "run_loop",
]
