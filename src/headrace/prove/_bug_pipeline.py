"""The seeded bug of a pipeline: methods replaced in the processes of a run, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.db import Connection

BUG = "batch-before-cursor"
GAP_S = 1.0
"""Between the two transactions, so that a kill meets it."""


class _Late:
    """A connection that keeps the moves of cursors for later."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self.moves: list[tuple[Any, ...]] = []

    def execute(self, text: Any, *given: Any) -> object:
        if "headrace.advance(" in str(text):
            self.moves.append((text, *given))
            return None
        return self._conn.execute(text, *given)

    def __getattr__(self, name: str) -> object:
        return getattr(self._conn, name)


def plant_in_pipeline(names: Sequence[str]) -> None:
    """Plants the bug in this process, where it is among the names."""
    if BUG not in names:
        return
    from headrace.pipeline import TopicPipeline

    plain = TopicPipeline._commit

    def commit(self: TopicPipeline, *given: Any) -> Any:
        conn, late = self._conn, _Late(self._conn)
        self._conn = late  # type: ignore[assignment]
        try:
            done = plain(self, *given)
        finally:
            self._conn = conn
        time.sleep(GAP_S)
        for move in late.moves:
            conn.execute(*move)
        return done

    TopicPipeline._commit = commit  # type: ignore[method-assign, assignment]
