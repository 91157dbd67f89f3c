"""The logs that the events of a frame come from, and the time at which each one ends.

A correlator runs over one log: positions of two logs say nothing about the order of their events. Promises: a frame with events of
several topics or shards is rejected, not mixed; timers fire up to the end of the log, whatever key has its last event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.evaluate import CorrelatorSpec
from headrace.lang.condition import micros_of
from headrace.spark.source import LogRead, find_log_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LogName = tuple[str | None, str | None]
"""Shard and topic; None where the frame does not say."""


@dataclass(frozen=True)
class FrameLogs:
    """A frame, and its logs with the time of their last events in microseconds. Without `ends`, it has one log, and nobody needs
    its end."""

    frame: DataFrame
    ends: Mapping[LogName, int] | None

    def end_of(self, spec: CorrelatorSpec) -> int | None:
        """Where the log of a correlator ends; None for a frame without events of it. Raises Invalid for several logs."""
        if self.ends is None:
            return None
        logs = [log for log in self.ends if spec.topic is None or log[1] is None or log[1] == spec.topic]
        if len(logs) > 1:
            names = ", ".join(sorted(f"{topic or 'a topic'} on shard {shard or '?'}" for shard, topic in logs))
            advice = "filter the frame, or give the correlator a topic" if spec.topic is None else "filter the frame by shard"
            raise Invalid(
                f"correlator {spec.name!r} runs over one log, but the frame has events of {len(logs)}: {names}; {advice}"
            )
        return self.ends[logs[0]] if logs else None


def find_frame_logs(df: DataFrame, specs: Sequence[CorrelatorSpec], columns: Sequence[str], until: datetime | None) -> FrameLogs:
    """The logs of a frame. A plain read of the source asks the database, and is narrowed to these columns; for other frames, a
    job counts them, unless they are known to come from one log whose end is not needed."""
    if df.isStreaming:
        raise Invalid("correlate takes a batch; for a stream use correlate_stream, or run the correlator as a pipeline")
    needs_end = until is None and any(spec.table.timers for spec in specs)
    read = find_log_read(df)
    if read is not None and read.is_whole and _keeps_the_end(read):
        positions, times = read.ends()
        frame = read.narrow(df, columns, positions)
        return FrameLogs(frame, {log: micros_of(time) for log, time in times.items()})
    if not needs_end and (read.is_one_log if read is not None else _is_one_log_in_files(df)):
        return FrameLogs(df, None)
    return FrameLogs(df, _count_logs(df))


def _is_one_log_in_files(df: DataFrame) -> bool:
    from headrace.spark.source import has_one_log

    return has_one_log(df)


def _keeps_the_end(read: LogRead) -> bool:
    """The options do not cut the log before its end, so that the end of the log is the end of the frame."""
    rows = read.options.rows
    return rows.from_time is None and rows.to_time is None and read.options.to_position is None


def _count_logs(df: DataFrame) -> dict[LogName, int]:
    names = [name for name in ("shard", "topic") if name in df.columns]
    ends = df.groupBy(*names).agg({"appended_at": "max"}).toDF(*names, "last").selectExpr(*names, "unix_micros(last) as last")
    logs: dict[LogName, int] = {}
    for row in ends.collect():
        values = row.asDict()
        if values["last"] is not None:
            logs[values.get("shard"), values.get("topic")] = values["last"]
    return logs
