"""Node: composes the loops of an application and runs them on every database."""

from headrace.node._app import Headrace, On
from headrace.node._hands import Work
from headrace.node._list import NodeState, list_nodes
from headrace.node._loop import new_loop, run_loop
from headrace.node._node import Node
from headrace.node._registry import HEARTBEAT_S, Identity, Registry
from headrace.node._story import ActionStory, Story, tell_story

__all__ = [
    "HEARTBEAT_S",
    "ActionStory",
    "Headrace",
    "Identity",
    "Node",
    "NodeState",
    "On",
    "Registry",
    "Story",
    "Work",
    "list_nodes",
    "new_loop",
    "run_loop",
    "tell_story",
]
