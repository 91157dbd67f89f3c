"""The palette (Ctrl-K): names of everything in the namespace that contain a text; for an id, its event or action."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from starlette.responses import JSONResponse, Response

from headrace.db import query
from headrace.web.console.navigation import NAVIGATION
from headrace.web.console.routes import read
from headrace.web.console.tables import fetch_dicts
from headrace.web.console.texts import cell_text
from headrace.web.console.view import View

PATHS = {
    "topic": "/topics/{}",
    "consumer": "/consumers/{}",
    "rule": "/rules/{}",
    "correlator": "/correlators/{}",
    "schedule": "/schedules/{}",
    "action": "/actions?action={}",
}
"""The page of each kind of object."""


def search(view: View) -> Response:
    """Pages and objects as JSON: kind, label and address."""
    text = view.query.get("q", "").strip()[:100]
    pages = [
        {"kind": "page", "label": link.label, "url": view.url(link.path)}
        for _, links in NAVIGATION
        for link in links
        if text.lower() in link.label.lower()
    ]
    pages += [{"kind": kind, "label": text, "url": view.url(f"/{kind}s/{text}")} for kind in ("event", "action") if _is_id(text)]
    results: dict[tuple[str, str], dict[str, str]] = {}
    if text:
        for _, names in view.each_shard(
            lambda conn: fetch_dicts(conn, query("web/console/find_names"), {"text": text, "namespace": view.namespace})
        ):
            for kind, name in ((row["kind"], row["name"]) for row in names):
                results[kind, name] = {"kind": kind, "label": cell_text(name), "url": _url(view, kind, name)}
    return JSONResponse([*pages, *list(results.values())[:50]])


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _url(view: View, kind: str, name: str) -> str:
    path, separator, parameter = PATHS[kind].partition("?")
    if separator:
        return view.url(path, **{parameter.partition("=")[0]: name})
    return view.url(path.format(quote(name, safe="/" if kind == "consumer" else "")))


ROUTES = (read("/palette", search),)
