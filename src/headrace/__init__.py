"""headrace: an event platform that runs inside PostgreSQL.

This package lists what an application needs. A name is imported from its room when it is first used, so that `import headrace`
costs almost nothing, and `from headrace import publish` loads only what publishing needs. Rooms such as `headrace.rules` list
more names for tools and tests."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.actions import Action, send_action, send_action_async
    from headrace.consume import Batch, Failure
    from headrace.core import (
        JSON,
        Bury,
        Conflict,
        DatabaseUnavailable,
        Discard,
        Event,
        Forbidden,
        HandlerTimeout,
        HeadraceError,
        Invalid,
        InvalidHandler,
        InvalidPayload,
        LeaseLost,
        LoggedEvent,
        NotFound,
        NotMigrated,
        PayloadMismatch,
        PayloadTooLarge,
        Retry,
        ShardUnavailable,
        TopicExists,
        UnknownTopic,
        from_cloudevent,
        to_cloudevent,
    )
    from headrace.correlators import Correlator, create_correlator
    from headrace.db import Shards, Target, connect, connect_async, migrate
    from headrace.log.arrow import Events, read
    from headrace.log.outbox import capture, publish, publish_async, publish_many, publish_many_async, release_capture
    from headrace.log.topics import create_topic
    from headrace.node import Headrace, Node
    from headrace.observe.tracing import set_tracing
    from headrace.rules import Rule, create_rule
    from headrace.schedules import create_schedule

__all__ = [
    "JSON",
    "Action",
    "Batch",
    "Bury",
    "Conflict",
    "Correlator",
    "DatabaseUnavailable",
    "Discard",
    "Event",
    "Events",
    "Failure",
    "Forbidden",
    "HandlerTimeout",
    "Headrace",
    "HeadraceError",
    "Invalid",
    "InvalidHandler",
    "InvalidPayload",
    "LeaseLost",
    "LoggedEvent",
    "Node",
    "NotFound",
    "NotMigrated",
    "PayloadMismatch",
    "PayloadTooLarge",
    "Retry",
    "Rule",
    "ShardUnavailable",
    "Shards",
    "Target",
    "TopicExists",
    "UnknownTopic",
    "capture",
    "connect",
    "connect_async",
    "create_correlator",
    "create_rule",
    "create_schedule",
    "create_topic",
    "from_cloudevent",
    "migrate",
    "publish",
    "publish_async",
    "publish_many",
    "publish_many_async",
    "read",
    "release_capture",
    "send_action",
    "send_action_async",
    "set_tracing",
    "to_cloudevent",
]

_ROOMS = {
    "actions": {"Action", "send_action", "send_action_async"},
    "consume": {"Batch", "Failure"},
    "correlators": {"Correlator", "create_correlator"},
    "db": {"Shards", "Target", "connect", "connect_async", "migrate"},
    "log.arrow": {"Events", "read"},
    "log.outbox": {"capture", "publish", "publish_async", "publish_many", "publish_many_async", "release_capture"},
    "log.topics": {"create_topic"},
    "node": {"Headrace", "Node"},
    "observe.tracing": {"set_tracing"},
    "rules": {"Rule", "create_rule"},
    "schedules": {"create_schedule"},
}
"""The room of each name; every other name is in `core`. A test compares it with the imports above."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'headrace' has no attribute {name!r}")
        from importlib import import_module

        room = next((room for room, names in _ROOMS.items() if name in names), "core")
        value = globals()[name] = getattr(import_module(f"headrace.{room}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
