"""Page: a report as one HTML file for people."""

from headrace.page._page import Marked, Page, add_table

__all__ = ["Marked", "Page", "add_table"]
