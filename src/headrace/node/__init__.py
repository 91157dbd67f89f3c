"""Node: an application, and the process that runs its loops on every database."""

from headrace.node.action_workers import NO_HANDLER_GRACE_S as NO_HANDLER_GRACE_S, WorkerSettings as WorkerSettings
from headrace.node.app import Headrace as Headrace
from headrace.node.application import HandlerSessions as HandlerSessions
from headrace.node.endpoints import HttpSettings as HttpSettings
from headrace.node.event_loop import new_loop as new_loop, run_loop as run_loop
from headrace.node.node import Node as Node
from headrace.node.registry import (
    Identity as Identity,
    NodeState as NodeState,
    Registry as Registry,
    forget_nodes as forget_nodes,
    list_nodes as list_nodes,
)
from headrace.node.running import Health as Health, RunningNode as RunningNode, require_migrated as require_migrated
