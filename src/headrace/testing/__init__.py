"""Testing: an application's events, rules, correlators, schedules, consumers and handlers in a test, with no background process.

Owns: throw-away databases, and the steps that a node would run, one after the other in the test's own thread. Promises: what the
kit runs is the code that nodes run; a database per test takes at most 0.2 s on the embedded server; nothing is imported before it is used, since pytest
loads `headrace.testing.plugin` for everybody who has headrace installed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.databases import DatabaseServer
    from headrace.testing.kit import Kit, RuleFiring, SentAction, TransactionKit, make_action, make_event
    from headrace.testing.steps import RunCounts

__all__ = ["DatabaseServer", "Kit", "RuleFiring", "RunCounts", "SentAction", "TransactionKit", "make_action", "make_event"]

_MODULES = {
    "databases": {"DatabaseServer"},
    "kit": {"Kit", "RuleFiring", "SentAction", "TransactionKit", "make_action", "make_event"},
    "steps": {"RunCounts"},
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        module = next((module for module, names in _MODULES.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"headrace.testing.{module}"), name)
        return value
