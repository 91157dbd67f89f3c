"""Rules and correlators that run live, step by step, to be compared with."""

from __future__ import annotations

from tests.rules.conftest import conn, correlators, reactor

__all__ = ["conn", "correlators", "reactor"]
