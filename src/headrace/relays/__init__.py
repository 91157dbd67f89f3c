"""Relays: consumers that deliver the events of a topic to another system.

Owns: the table headrace.relay, and the connections to targets. Promises: every event for which the condition is true reaches the
target, in order per key: at least once, and exactly once where the target can tell a repetition. The cursor moves after the target
has confirmed. One relay's failure never stops another one. Secrets are in no table and no message."""

from headrace.relays.delivery import RelayBacktest as RelayBacktest, backtest_relay as backtest_relay
from headrace.relays.engine import RelayEngine as RelayEngine, RelayRunner as RelayRunner
from headrace.relays.mapping import Format as Format
from headrace.relays.relay import (
    RELAYS as RELAYS,
    Relay as Relay,
    RelayState as RelayState,
    RelayVersion as RelayVersion,
    alter_relay as alter_relay,
    check_relay as check_relay,
    create_relay as create_relay,
    drop_relay as drop_relay,
    get_relay as get_relay,
    list_relay_versions as list_relay_versions,
    list_relays as list_relays,
    load_relays as load_relays,
    seek_relay as seek_relay,
)
from headrace.relays.targets import (
    TARGETS as TARGETS,
    Message as Message,
    Option as Option,
    Options as Options,
    Target as Target,
    TargetKind as TargetKind,
    fill_template as fill_template,
    find_mistakes as find_mistakes,
)
