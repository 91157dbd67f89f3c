"""Node: composes the loops of an application and runs them on every database."""

from headrace.node._app import Headrace
from headrace.node._node import Node

__all__ = ["Headrace", "Node"]
