"""Events."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Events."""
    return Page("events.html", "Events")


ROUTES = (read("/events", show),)
