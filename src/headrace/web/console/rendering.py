"""Rendering: pages, parts of pages, tables and errors as responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from headrace.core import HeadraceError, redact
from headrace.web.console import texts
from headrace.web.console.masks import MASK
from headrace.web.console.navigation import NAVIGATION
from headrace.web.console.static_files import vendor_files
from headrace.web.console.tables import Row, Table
from headrace.web.console.view import Page, View

_FILTERS: dict[str, Callable[..., object]] = {
    "cell": texts.cell_text,
    "lines": texts.lines_text,
    "payload_text": texts.payload_text,
    "number": texts.format_number,
    "seconds": texts.format_seconds,
    "bytes": texts.format_bytes,
    "since": texts.relative_time,
    "absolute": texts.absolute_time,
    "identified": texts.identified,
}


def create_templates() -> Environment:
    """The templates: everything is escaped, and a name that a page does not set is an error."""
    templates = Environment(
        loader=PackageLoader("headrace.web.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(_FILTERS)
    templates.globals.update(payload_chars_max=texts.PAYLOAD_CHARS_MAX)
    # As a global and not by an import in every page: a part of a page is rendered without the top level of its template.
    templates.globals["ui"] = templates.get_template("macros.html").module
    return templates


def render(view: View, page: Page) -> Response:
    """A page, or the export of one of its tables."""
    page = _select(view, page)
    if page.tables and (kind := view.query.get("format")) in ("json", "csv"):
        return _export(view, page, str(kind))
    template = view.site.templates.get_template(page.template)
    return HTMLResponse(template.render(_context(view, page)), status_code=page.status)


def render_live(view: View, page: Page) -> str:
    """Only the part of the page that is renewed while it is open."""
    template = view.site.templates.get_template(page.template)
    block = template.blocks.get("live")
    return "".join(block(template.new_context(_context(view, _select(view, page))))) if block else ""


def render_error(view: View, error: HeadraceError, status: int) -> Response:
    message = redact("\n".join([str(error).strip(), *getattr(error, "__notes__", [])]))
    values = {"message": message, "explanation": (type(error).__doc__ or "").strip(), "status": status}
    page = Page("error.html", type(error).__name__, values=values, status=status, is_live=False)
    template = view.site.templates.get_template(page.template)
    return HTMLResponse(template.render(_context(view, page, with_namespaces=status != 503)), status_code=status)


def _context(view: View, page: Page, *, with_namespaces: bool = True) -> dict[str, Any]:
    namespaces = _namespaces(view) if with_namespaces and view.is_signed_in else []
    return {
        "view": view,
        "page": page,
        "title": page.title,
        "tables": {table.name: table for table in page.tables},
        "navigation": NAVIGATION,
        "vendor": vendor_files(),
        "notice": unquote(view.request.cookies.get("headrace_notice", "")),
        "namespaces": list(dict.fromkeys(namespaces)),
        **page.values,
    }


def _namespaces(view: View) -> list[str]:
    """The choices of the selector; none where they cannot be read: the page of an error must not fail."""
    try:
        return [view.namespace, *view.namespaces]
    except HeadraceError:
        return []


def _select(view: View, page: Page) -> Page:
    """The page with its tables masked, filtered by `?q=` and sorted by `?sort=`."""
    search, sort = view.query.get("q", ""), view.query.get("sort", "")
    several = len(view.shards) > 1
    chosen = view.query.get("table") or (page.tables[0].name if page.tables else "")
    tables = []
    for table in page.tables:
        table = replace(table, rows=[_mask(view, row) for row in table.rows]).with_shards(several)
        if table.name == chosen:
            table = table.select(search=search, sort=sort.removeprefix("-"), descending=sort.startswith("-"))
        tables.append(table)
    return replace(page, tables=tables)


def _mask(view: View, row: Row) -> Row:
    masked = {"payload": view.mask(row["payload"])} if "payload" in row else {}
    if row.get("captured") is not None and view.hidden_fields:
        masked["captured"] = MASK
    return {**row, **masked}


def _export(view: View, page: Page, kind: str) -> Response:
    names = [table.name for table in page.tables]
    name = view.query.get("table") or names[0]
    table: Table = page.tables[names.index(name)] if name in names else page.tables[0]
    headers = {"content-disposition": f'attachment; filename="headrace-{table.name}.{kind}"'}
    if kind == "json":
        return Response(table.to_json(), media_type="application/json", headers=headers)
    return Response(table.to_csv(), media_type="text/csv; charset=utf-8", headers=headers)
