"""Report: pages with tables and charts for people, each one HTML file.

Owns: the style that reports share. Promises: a page loads nothing and runs no script; whatever an event contains stays text."""

from headrace.observe.reports.charts import Span, bar_chart, line_chart, require_charts
from headrace.observe.reports.page import Page, StyledText, add_table, table_html

__all__ = ["Page", "Span", "StyledText", "add_table", "bar_chart", "line_chart", "require_charts", "table_html"]
