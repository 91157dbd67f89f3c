"""Dead letters."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Dead letters."""
    return Page("dead_letters.html", "Dead letters")


ROUTES = (read("/dead-letters", show),)
