"""Actions."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Actions."""
    return Page("actions.html", "Actions")


ROUTES = (read("/actions", show),)
