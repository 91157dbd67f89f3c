"""What happens to the keys of a correlator when its pattern changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from headrace.lang.ecl import StateLimitExceeded, StateMapping, Table, equivalent_states, table_hash

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyEffect:
    """What a change means for the keys: how many continue from their state, and how many start afresh."""

    carried: int
    restarted: int


def map_states(correlator: str, old: Table, new: Table) -> StateMapping | None:
    """Which state continues as which; None: the tables are equal, so every state continues as itself."""
    if table_hash(old) == table_hash(new):
        return None
    try:
        return equivalent_states(old, new)
    except StateLimitExceeded as error:
        logger.warning("correlator %s: all keys start afresh: %s", correlator, error)
        return StateMapping({}, ())
