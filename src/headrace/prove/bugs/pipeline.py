"""The seeded bug of a pipeline: methods replaced in the processes of a run, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.db import Connection

BUG = "cursor-before-batch"
ADVANCE = "headrace.advance("
GAP_S = 2.0
"""Between the two transactions, so that a kill falls into it."""


class _WithoutAdvance:
    """A connection that skips the statement which advances cursors."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def execute(self, text: Any, *args: Any) -> object:
        return None if ADVANCE in str(text) else self._conn.execute(text, *args)

    def __getattr__(self, name: str) -> object:
        return getattr(self._conn, name)


def plant_in_pipeline(names: Sequence[str]) -> None:
    """Plants the bug in this process if it is among the names."""
    if BUG not in names:
        return
    from headrace.spark.pipeline import TopicPipeline

    original = TopicPipeline._commit

    def commit(self: TopicPipeline, parts: Sequence[Any], *args: Any) -> Any:
        conn = self._conn
        for part in parts:
            conn.execute(f"select {ADVANCE}%s, -1, %s)", (part.snapshot.consumer_id, part.upto))
        time.sleep(GAP_S)
        self._conn = _WithoutAdvance(conn)  # type: ignore[assignment]
        # The pipeline must not notice that its cursors have already moved.
        self._lock_cursors = list  # type: ignore[method-assign, assignment]
        try:
            return original(self, parts, *args)
        finally:
            self._conn = conn
            del self._lock_cursors

    TopicPipeline._commit = commit  # type: ignore[method-assign, assignment]
