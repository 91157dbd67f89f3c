"""Correlators."""

from __future__ import annotations

from headrace.console.routes import read
from headrace.console.view import Page, View


def show(view: View) -> Page:
    """Correlators."""
    return Page("correlators.html", "Correlators")


ROUTES = (read("/correlators", show),)
