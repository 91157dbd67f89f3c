"""headrace: an event platform that runs inside PostgreSQL.

This package lists what an application needs. A name is imported from its room when it is first used, so that `import headrace`
costs almost nothing, and `from headrace import publish` loads only what publishing needs. Rooms such as `headrace.rules` list
more names for tools and tests."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.actions import Action as Action, send_action as send_action, send_action_async as send_action_async
    from headrace.consume import Batch as Batch, Failure as Failure
    from headrace.core import (
        JSON as JSON,
        Bury as Bury,
        Conflict as Conflict,
        DatabaseUnavailable as DatabaseUnavailable,
        Discard as Discard,
        Event as Event,
        Forbidden as Forbidden,
        HandlerTimeout as HandlerTimeout,
        HeadraceError as HeadraceError,
        Invalid as Invalid,
        InvalidHandler as InvalidHandler,
        InvalidPayload as InvalidPayload,
        LeaseLost as LeaseLost,
        LoggedEvent as LoggedEvent,
        NotFound as NotFound,
        NotMigrated as NotMigrated,
        PayloadMismatch as PayloadMismatch,
        PayloadTooLarge as PayloadTooLarge,
        Retry as Retry,
        ShardUnavailable as ShardUnavailable,
        TopicExists as TopicExists,
        UnknownTopic as UnknownTopic,
        from_cloudevent as from_cloudevent,
        to_cloudevent as to_cloudevent,
    )
    from headrace.correlators import Correlator as Correlator, create_correlator as create_correlator
    from headrace.db import (
        Shards as Shards,
        Target as Target,
        connect as connect,
        connect_async as connect_async,
        migrate as migrate,
    )
    from headrace.log.arrow import Events as Events, read as read
    from headrace.log.outbox import (
        capture as capture,
        publish as publish,
        publish_async as publish_async,
        publish_many as publish_many,
        publish_many_async as publish_many_async,
        release_capture as release_capture,
    )
    from headrace.log.topics import create_topic as create_topic
    from headrace.node import Headrace as Headrace, Node as Node
    from headrace.observe.tracing import set_tracing as set_tracing
    from headrace.rules import Rule as Rule, create_rule as create_rule
    from headrace.schedules import create_schedule as create_schedule

else:
    _ROOMS = {
        "actions": {"Action", "send_action", "send_action_async"},
        "consume": {"Batch", "Failure"},
        "core": {
            "JSON",
            "Bury",
            "Conflict",
            "DatabaseUnavailable",
            "Discard",
            "Event",
            "Forbidden",
            "HandlerTimeout",
            "HeadraceError",
            "Invalid",
            "InvalidHandler",
            "InvalidPayload",
            "LeaseLost",
            "LoggedEvent",
            "NotFound",
            "NotMigrated",
            "PayloadMismatch",
            "PayloadTooLarge",
            "Retry",
            "ShardUnavailable",
            "TopicExists",
            "UnknownTopic",
            "from_cloudevent",
            "to_cloudevent",
        },
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
    """The room of each name. A test compares it with the imports above, which are for type checkers."""
    __all__ = sorted(name for names in _ROOMS.values() for name in names)

    def __getattr__(name: str) -> object:
        from importlib import import_module

        room = next((room for room, names in _ROOMS.items() if name in names), None)
        if room is None:
            raise AttributeError(f"module 'headrace' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"headrace.{room}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
