"""Guard: what every request passes first: host, login, read-only mode; and what every response gets: the security headers."""

from __future__ import annotations

import re
import secrets
from functools import partial
from inspect import isawaitable
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.web.console.login import COOKIE, IDLE_S, RENEW_S, ConsoleSettings, Session, TokenLogin, User
from headrace.web.console.site import EndedSessions

CSRF_COOKIE = "headrace_csrf"
# No inline script or style, nothing from elsewhere, no frame around us.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
SAFE_METHODS = ("GET", "HEAD")
OPEN_PATHS = ("/login", "/logout")
"""Reached without a login, also where the console is read-only. So is everything below /static/."""
_host = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]*)(:\d*)?")


class Guard:
    """An ASGI middleware around all pages."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings, ended_sessions: EndedSessions) -> None:
        self._app = app
        self._settings = settings
        self._ended_sessions = ended_sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        csrf = request.cookies.get(CSRF_COOKIE, "")
        is_new = len(csrf) < 20
        if is_new:
            csrf = secrets.token_urlsafe(24)
        user, session = await self._identify(request)
        scope["headrace.user"] = user
        scope["headrace.is_signed_in"] = partial(self._is_signed_in, request, user)
        response = self._reject(request, user)
        path = _root_and_path(request)[1]
        # An open page that renews itself is no sign of somebody in front of it.
        is_used = path not in OPEN_PATHS and not path.startswith("/static/") and "live" not in request.query_params
        is_due = session is not None and response is None and is_used and session.age_s >= RENEW_S
        renewed = session.cookie if session and is_due else None
        # A token that the browser did not have yet cannot be in a form: requests without the cookie never change anything.
        scope["headrace.csrf"] = csrf

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                if is_new:
                    headers.append("set-cookie", _cookie(scope, CSRF_COOKIE, csrf))
                if renewed is not None:
                    headers.append("set-cookie", _cookie(scope, COOKIE, renewed, max_age_s=IDLE_S))
            await send(message)

        await (response or self._app)(scope, receive, send_guarded)

    async def _identify(self, request: Request) -> tuple[User | None, Session | None]:
        """The user, and the session if a cookie says so. Signed-out sessions have no user."""
        login = self._settings.login
        session = login.session_of(request) if isinstance(login, TokenLogin) else None
        if session is not None:
            has_ended = await self._ended_sessions.includes(session.hash)
            return (None, None) if has_ended else (session.user, session)
        identity = login.identify(request)
        return await identity if isawaitable(identity) else identity, None

    async def _is_signed_in(self, request: Request, user: User | None) -> bool:
        """True if a request that is still being answered would be let in again."""
        now, _ = await self._identify(request)
        return now == user

    def _reject(self, request: Request, user: User | None) -> Response | None:
        """The answer to a request that goes no further."""
        hosts = self._settings.hosts
        # None if the header is anything but a name or address with an optional port.
        host = _host.fullmatch(request.headers.get("host", "").lower())
        if "*" not in hosts and (host is None or host["name"] not in hosts):
            return PlainTextResponse(
                f"This console does not answer for this host. Allowed: {', '.join(hosts)}.\n", status_code=400
            )
        root, path = _root_and_path(request)
        if path in OPEN_PATHS or path.startswith("/static/"):
            return None
        if user is None:
            return self._ask_to_sign_in(request, root, path)
        if request.method not in SAFE_METHODS and (self._settings.read_only or user.read_only):
            return PlainTextResponse("This console is read-only for you; nothing was changed.\n", status_code=403)
        return None

    def _ask_to_sign_in(self, request: Request, root: str, path: str) -> Response:
        is_page = request.method == "GET" and not request.query_params.keys() & {"live", "format"}
        is_page &= path != "/metrics"
        if isinstance(self._settings.login, TokenLogin) and is_page:
            query = request.scope["query_string"].decode("latin-1")
            wanted = quote(root + path) + (f"?{query}" if query else "")
            return RedirectResponse(f"{root}/login?next={quote(wanted, safe='')}", status_code=303)
        return PlainTextResponse("Sign in first.\n", status_code=401)


def _root_and_path(request: Request) -> tuple[str, str]:
    root = str(request.scope.get("root_path", "")).rstrip("/")
    # Read the scope, never request.url: that one is built from the Host header, which the client chooses.
    return root, str(request.scope["path"]).removeprefix(root)


def _cookie(scope: Scope, name: str, value: str, *, max_age_s: int | None = None) -> str:
    path = str(scope.get("root_path", "")).rstrip("/") + "/"
    age = "" if max_age_s is None else f"; Max-Age={max_age_s}"
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{name}={value}; Path={path}{age}; HttpOnly; SameSite=Strict{secure}"
