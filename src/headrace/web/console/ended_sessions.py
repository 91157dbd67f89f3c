"""Sessions that were signed out: a copy of their cookie is worth nothing, in whichever process that serves the console.

Owns: headrace_internal.ended_session, in the first of the console's databases. Promises: this process knows a sign-out at once, others
within CHECK_S, and a process that is started later from its first request on. Where the database cannot be asked, what was known counts:
without it there is nothing to see either."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from time import monotonic

from starlette.concurrency import run_in_threadpool

from headrace.core import HeadraceError
from headrace.web.console.databases import Databases

CHECK_S = 2.0
"""How often a process asks for what others have signed out."""

_log = logging.getLogger(__name__)


class EndedSessions:
    """The sessions by the SHA-256 of their random part."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._home = next(iter(databases.targets.values()))
        self._own: set[str] = set()
        self._known: frozenset[str] = frozenset()
        self._asked_at = float("-inf")

    async def includes(self, session_hash: str) -> bool:
        is_first = self._asked_at == float("-inf")
        if is_first or monotonic() - self._asked_at >= CHECK_S:
            if not is_first:
                # Before the question: requests that come meanwhile do not ask again. Before the first answer each one asks.
                self._asked_at = monotonic()
            try:
                self._known = await run_in_threadpool(self._read)
            except HeadraceError as error:
                if is_first:
                    _log.warning("sessions that were signed out elsewhere still count here: %s", error)
            self._asked_at = monotonic()
        return session_hash in self._own or session_hash in self._known

    def add(self, session_hash: str, ends_at: float) -> None:
        """Ends a session; in this process also if the database cannot be written."""
        self._own.add(session_hash)
        try:
            with self._databases.transaction(self._home, None, read_only=False) as conn:
                conn.execute(
                    "select headrace_internal.end_session(p_session_hash => %s, p_ends_at => %s)",
                    (session_hash, datetime.fromtimestamp(ends_at, UTC)),
                )
        except HeadraceError as error:
            _log.warning("a session was signed out in this process only: %s", error)

    def _read(self) -> frozenset[str]:
        with self._databases.transaction(self._home, None, read_only=True) as conn:
            return frozenset(row[0] for row in conn.execute("select headrace_internal.ended_sessions()"))
