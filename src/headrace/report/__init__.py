"""Page: a report as one HTML file for people."""

from headrace.report.page import Marked, Page, add_table

__all__ = [
    "Marked",
    "Page",
    "add_table",
]
