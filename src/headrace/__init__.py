"""headrace: an event platform that lives inside PostgreSQL."""

from headrace.consume import Batch, Failure
from headrace.core import Event, HeadraceError, LoggedEvent
from headrace.node import Headrace, Node

__all__ = ["Batch", "Event", "Failure", "Headrace", "HeadraceError", "LoggedEvent", "Node"]
