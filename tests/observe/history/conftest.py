"""Correlators that are compiled and run step by step."""

from __future__ import annotations

from tests.rules.conftest import conn, correlators, reactor

__all__ = ["conn", "correlators", "reactor"]
