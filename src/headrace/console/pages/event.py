"""Event."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Event."""
    return Page("event.html", "Event")


ROUTES = (read("/events/{event_id}", show),)
