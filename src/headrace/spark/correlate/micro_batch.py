"""One micro-batch of a correlator: classified on Spark, stepped where the states are.

The caller reads the states of `keys`, calls `step`, and writes outputs, states and cursor in one transaction. So a batch that
runs again after a crash finds either all of it done or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.lang.condition import micros_of
from headrace.spark.correlate.frames import classify_events
from headrace.spark.correlate.symbols import CorrelatorSpec, build_classifier

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.spark.correlate.rows import Stepped


@dataclass(frozen=True)
class MicroBatch:
    """The classified events of a micro-batch: key, symbol, offset, time, event_id."""

    spec: CorrelatorSpec
    events: pa.Table

    @property
    def keys(self) -> list[str]:
        """The keys whose states are needed, each once."""
        return list(self.events["key"].unique().to_pylist())

    def step(self, states: pa.Table, *, until: datetime | None = None) -> Stepped:
        """Outputs and changed states, from the stored states (STATE_SCHEMA; a key without one starts at its first event).

        `until` fires the timers of these keys, and of all others in `states`, that are due by a time."""
        from headrace.spark.correlate.stepping import step

        last = None if until is None else micros_of(until)
        spec = self.spec
        return step(self.events, states, spec.table, evidence_max=spec.evidence_max, until=last, forgets=spec.forgets)


def take_micro_batch(df: DataFrame, spec: CorrelatorSpec) -> MicroBatch:
    """Classifies a micro-batch in parallel, and collects the events that can matter."""
    return MicroBatch(spec, classify_events(df, spec, build_classifier(spec)).toArrow())
