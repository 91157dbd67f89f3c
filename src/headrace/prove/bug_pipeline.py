"""The seeded bug of a pipeline: methods replaced in the processes of a run, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.db import Connection

BUG = "cursor-before-batch"
ADVANCE = "headrace.advance("
GAP_S = 2.0
"""Between the two transactions, so that a kill meets it."""


class _Still:
    """A connection that moves no cursor."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def execute(self, text: Any, *given: Any) -> object:
        return None if ADVANCE in str(text) else self._conn.execute(text, *given)

    def __getattr__(self, name: str) -> object:
        return getattr(self._conn, name)


def plant_in_pipeline(names: Sequence[str]) -> None:
    """Plants the bug in this process, where it is among the names."""
    if BUG not in names:
        return
    from headrace.spark.pipeline import TopicPipeline

    plain = TopicPipeline._commit

    def commit(self: TopicPipeline, parts: Sequence[Any], *given: Any) -> Any:
        conn = self._conn
        for part in parts:
            conn.execute(f"select {ADVANCE}%s, -1, %s)", (part.standing.consumer_id, part.upto))
        time.sleep(GAP_S)
        self._conn = _Still(conn)  # type: ignore[assignment]
        # That the cursors have moved since is no surprise here.
        self._held = list  # type: ignore[method-assign, assignment]
        try:
            return plain(self, parts, *given)
        finally:
            self._conn = conn
            del self._held

    TopicPipeline._commit = commit  # type: ignore[method-assign, assignment]
