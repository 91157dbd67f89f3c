"""Carrying: what becomes of the keys of a correlator when its pattern changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from headrace.lang.ecl import Carrying, StateLimitExceeded, Table, equivalent_states, table_hash

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Carried:
    """What a change means for the keys: how many go on from where they stand, and how many start afresh."""

    carried: int
    restarted: int


def carrying(correlator: str, old: Table, new: Table) -> Carrying | None:
    """Which states go on as which; None: the tables are the same, and all of them do."""
    if table_hash(old) == table_hash(new):
        return None
    try:
        return equivalent_states(old, new)
    except StateLimitExceeded as error:
        logger.warning("correlator %s: all keys start afresh: %s", correlator, error)
        return Carrying({}, ())
