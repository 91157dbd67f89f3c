"""Sign in with a token, and sign out."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from headrace.web.console.login import COOKIE, IDLE_S, TokenLogin
from headrace.web.console.routes import change, cookie_path, read
from headrace.web.console.view import Done, Page, View


def show(view: View) -> Page:
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


ROUTES = (read("/login", show), change("/login", sign_in, form=show), change("/logout", sign_out))
