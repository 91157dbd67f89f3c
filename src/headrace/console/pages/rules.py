"""Rules."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Rules."""
    return Page("rules.html", "Rules")


ROUTES = (read("/rules", show),)
