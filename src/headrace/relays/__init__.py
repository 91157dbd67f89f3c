"""Relays: consumers that deliver the events of a topic to another system.

Owns: the table headrace.relay, and the connections to targets. Promises: every event for which the condition is true reaches the
target, in order per key: at least once, and exactly once where the target can tell a repetition. The cursor moves after the target
has confirmed. One relay's failure never stops another one. Secrets are in no table and no message."""

from headrace.relays.delivery import RelayBacktest, backtest_relay
from headrace.relays.engine import RelayEngine, RelayRunner
from headrace.relays.mapping import Format
from headrace.relays.relay import (
    RELAYS,
    Relay,
    RelayState,
    RelayVersion,
    alter_relay,
    check_relay,
    create_relay,
    drop_relay,
    get_relay,
    list_relay_versions,
    list_relays,
    load_relays,
    seek_relay,
)
from headrace.relays.targets import TARGET_KINDS
from headrace.relays.targets.target import Message, Target

__all__ = [
    "RELAYS",
    "TARGET_KINDS",
    "Format",
    "Message",
    "Relay",
    "RelayBacktest",
    "RelayEngine",
    "RelayRunner",
    "RelayState",
    "RelayVersion",
    "Target",
    "alter_relay",
    "backtest_relay",
    "check_relay",
    "create_relay",
    "drop_relay",
    "get_relay",
    "list_relay_versions",
    "list_relays",
    "load_relays",
    "seek_relay",
]
