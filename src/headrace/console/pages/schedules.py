"""Schedules."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Schedules."""
    return Page("schedules.html", "Schedules")


ROUTES = (read("/schedules", show),)
