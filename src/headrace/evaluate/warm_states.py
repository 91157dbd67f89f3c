"""Warm states: the states of keys that the driver has stepped last, so that it need not read them again for the next batch.

They are valid while nobody else has moved the stream: the caller stamps them with the position they are of."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate.rows import STATE_SCHEMA

KEYS_MAX = 2_000_000
"""More keys than this are not kept: about a gigabyte."""


class WarmStates:
    """The states of one correlator's keys; keys without a state are known too."""

    def __init__(self) -> None:
        self._clear(None)

    def _clear(self, stamp: object) -> None:
        self._stamp = stamp
        self._known = pa.array([], pa.string())
        self._states = STATE_SCHEMA.empty_table()

    def read(self, stamp: object, keys: pa.StringArray, load: Callable[[pa.StringArray], pa.Table]) -> pa.Table:
        """The states of those keys that have one; those of keys that are not known are loaded."""
        if stamp != self._stamp or len(self._known) > KEYS_MAX:
            self._clear(stamp)
        missing = keys.filter(pc.invert(pc.is_in(keys, value_set=self._known)))
        if len(missing):
            self._known = pa.concat_arrays([self._known, missing])
            self._states = pa.concat_tables([self._states, load(missing)])
        return self._states.filter(pc.is_in(self._states["key"], value_set=keys))

    def write(self, stamp: object, changed: pa.Table) -> None:
        """Takes over the changed states, which are of a new stamp."""
        self._stamp = stamp
        others = self._states.filter(pc.invert(pc.is_in(self._states["key"], value_set=changed["key"].combine_chunks())))
        self._states = pa.concat_tables([others, changed]).combine_chunks()
