"""The frame of all pages: signing in with a token and out, and the palette (Ctrl-K)."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from starlette.responses import JSONResponse, RedirectResponse, Response

from headrace.db import query
from headrace.web.console.login import COOKIE, IDLE_S, TokenLogin
from headrace.web.console.routes import change, cookie_path, read
from headrace.web.console.tables import fetch_dicts
from headrace.web.console.texts import cell_text
from headrace.web.console.view import Done, Page, View


def show_sign_in(view: View) -> Page:
    """The form for the token."""
    is_token = isinstance(view.site.settings.login, TokenLogin)
    return Page("sign_in.html", "Sign in", values={"is_token": is_token, "next": _next(view)}, is_live=False)


def sign_in(view: View) -> Page | Response:
    login = view.site.settings.login
    token = view.form.get("token", "")
    if not isinstance(login, TokenLogin) or login.user_of(token) is None:
        view.error = "There is no such token. Ask whoever runs this console for one."
        values = {"is_token": isinstance(login, TokenLogin), "next": _next(view)}
        return Page("sign_in.html", "Sign in", values=values, status=401, is_live=False)
    response = RedirectResponse(_next(view), status_code=303)
    secure = view.request.scope["scheme"] == "https"
    path = cookie_path(view.request)
    session = login.start_session(token)
    response.set_cookie(COOKIE, session, max_age=IDLE_S, httponly=True, samesite="strict", secure=secure, path=path)
    return response


def sign_out(view: View) -> Done | Response:
    login = view.site.settings.login
    # Only a valid session: nobody fills the table with made-up ones.
    if isinstance(login, TokenLogin) and (session := login.session_of(view.request)):
        view.site.ended_sessions.add(session.hash, session.ends_at)
    response = RedirectResponse(view.url("/login"), status_code=303)
    response.delete_cookie(COOKIE, path=cookie_path(view.request))
    return response


def _next(view: View) -> str:
    """The page that was asked for: an address of this console only."""
    home = view.url("/")
    wanted = view.form.get("next") or view.query.get("next") or home
    is_own = wanted.startswith(cookie_path(view.request)) and not wanted.startswith(("//", "/\\"))
    return wanted if is_own else home


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
    """Pages and objects whose names contain a text, as JSON: kind, label and address. For an id, its event or action."""
    text = view.query.get("q", "").strip()[:100]
    pages = [
        {"kind": "page", "label": link.label, "url": view.url(link.path)}
        for _, links in view.site.navigation
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


ROUTES = (
    read("/palette", search),
    read("/login", show_sign_in),
    change("/login", sign_in, form=show_sign_in),
    change("/logout", sign_out),
)
