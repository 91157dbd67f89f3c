"""Node: an application, and the process that runs its loops on every database."""

from headrace.node.action_workers import NO_HANDLER_GRACE_S, WorkerSettings
from headrace.node.app import Headrace
from headrace.node.application import HandlerSessions
from headrace.node.endpoints import HttpSettings
from headrace.node.event_loop import new_loop, run_loop
from headrace.node.node import Node
from headrace.node.registry import Identity, NodeState, Registry, forget_nodes, list_nodes
from headrace.node.running import Health, RunningNode, require_migrated

__all__ = [
    "NO_HANDLER_GRACE_S",
    "HandlerSessions",
    "Headrace",
    "Health",
    "HttpSettings",
    "Identity",
    "Node",
    "NodeState",
    "Registry",
    "RunningNode",
    "WorkerSettings",
    "forget_nodes",
    "list_nodes",
    "new_loop",
    "require_migrated",
    "run_loop",
]
