"""headrace: an event platform that lives inside PostgreSQL."""

from headrace.actions import Action, send_action, send_action_async
from headrace.consume import Batch, Failure
from headrace.core import Event, HeadraceError, LoggedEvent
from headrace.node import Headrace, Node
from headrace.outbox import publish, publish_async, publish_many, publish_many_async

__all__ = [
    "Action",
    "Batch",
    "Event",
    "Failure",
    "Headrace",
    "HeadraceError",
    "LoggedEvent",
    "Node",
    "publish",
    "publish_async",
    "publish_many",
    "publish_many_async",
    "send_action",
    "send_action_async",
]
