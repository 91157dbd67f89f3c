"""Node: an application, and the process that runs its loops on every database."""

from headrace.node.action_workers import WorkerSettings
from headrace.node.app import Headrace
from headrace.node.loops import new_loop, run_loop
from headrace.node.node import Node
from headrace.node.registry import Identity, NodeState, forget_nodes, list_nodes

__all__ = [
    "Headrace",
    "Identity",
    "Node",
    "NodeState",
    "WorkerSettings",
    "forget_nodes",
    "list_nodes",
    "new_loop",
    "run_loop",
]
