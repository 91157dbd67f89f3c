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
from headrace.relays.targets import TARGETS, Message, Option, Options, Target, TargetKind, fill_template, find_mistakes

__all__ = [
    "RELAYS",
    "TARGETS",
    "Format",
    "Message",
    "Option",
    "Options",
    "Relay",
    "RelayBacktest",
    "RelayEngine",
    "RelayRunner",
    "RelayState",
    "RelayVersion",
    "Target",
    "TargetKind",
    "alter_relay",
    "backtest_relay",
    "check_relay",
    "create_relay",
    "drop_relay",
    "fill_template",
    "find_mistakes",
    "get_relay",
    "list_relay_versions",
    "list_relays",
    "load_relays",
    "seek_relay",
]
