"""The gate: host, login, read-only mode, tokens of forms, security headers. A person with curl tries them all."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from time import time
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.routing import Route
from typer.testing import CliRunner

from headrace.cli import app
from headrace.db import Target
from headrace.observe.metrics import CONTENT_TYPE
from headrace.web.console import ConsoleSettings, HostLogin, ProxyLogin, TokenLogin, User, new_token
from headrace.web.console.app import page_routes
from headrace.web.console.guard import CSRF_COOKIE
from headrace.web.console.login import COOKIE, IDLE_S, SESSION_S
from headrace.web.console.site import EndedSessions
from headrace.web.http.server import HeadTimeoutProtocol
from tests.builders import wait_until
from tests.web.console.addresses import page_addresses
from tests.web.console.conftest import Pages, Running, check_looks, serve

CHANGING = sorted(
    route.path
    for route in page_routes()
    if isinstance(route, Route) and "POST" in (route.methods or ()) and route.path not in ("/login", "/logout")
)
ADA, BOB = new_token(), new_token()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def cookies(self) -> dict[str, str]:
        return dict(re.findall(r"(headrace_\w+)=([^;,]+)", self.headers.get("set-cookie", "")))


def ask(
    url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
) -> Answer:
    """One request, as it is: no redirect is followed, no header added."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    body = urlencode(form) if form is not None else None
    kind = {"content-type": "application/x-www-form-urlencoded"} if form is not None else {}
    connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), body, {**kind, **(headers or {})})
    response = connection.getresponse()
    names = response.headers.keys()
    answer = Answer(
        response.status,
        {name.lower(): ", ".join(response.headers.get_all(name) or ()) for name in names},
        response.read().decode(),
    )
    connection.close()
    return answer


def concrete(path: str) -> str:
    return re.sub(r"\{\w+(:\w+)?\}", "orders", path)


def test_read_only_console_rejects_every_change(filled: Target) -> None:
    with serve([filled], ConsoleSettings(read_only=True)) as address:
        csrf = ask(f"{address}/topics").cookies[CSRF_COOKIE]
        for path in CHANGING:
            answer = ask(
                f"{address}{concrete(path)}", method="POST", form={"csrf": csrf}, headers={"cookie": f"{CSRF_COOKIE}={csrf}"}
            )
            assert answer.status == 403 and "nothing was changed" in answer.text, path


def test_pages_of_a_read_only_console_have_no_form_that_changes(filled: Target) -> None:
    with serve([filled], ConsoleSettings(read_only=True)) as address:
        for route, path in page_addresses(filled, "default").items():
            text = ask(address + path).text
            assert 'method="post"' not in text and 'name="csrf"' not in text, route


@pytest.mark.parametrize("path", CHANGING)
def test_form_without_the_token_is_rejected(site: Running, path: str) -> None:
    csrf = ask(site.url("/topics")).cookies[CSRF_COOKIE]
    cookie = {"cookie": f"{CSRF_COOKIE}={csrf}"}
    url = site.url(concrete(path))
    assert ask(url, method="POST", form={}, headers=cookie).status == 403
    assert ask(url, method="POST", form={"csrf": "x" * 32}, headers=cookie).status == 403
    assert ask(url, method="POST", form={"csrf": csrf}).status == 403, "the token without the cookie"
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        assert ask(url, method="POST", form={"csrf": csrf}, headers={**cookie, **headers}).status == 403, headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_change_nothing(site: Running, method: str) -> None:
    assert ask(site.url("/topics/create"), method=method).status == 405


def test_foreign_host_is_rejected(site: Running) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"):
        assert ask(site.url("/"), headers={"host": host}).status == 400, host
    assert ask(site.url("/topics"), headers={"host": "localhost:1"}).status == 200


def test_host_header_never_chooses_the_path(filled: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starlette 1.0.0 built a request's URL by gluing its host and its path together."""
    monkeypatch.setattr(Request, "url", property(lambda request: URL(f"http://{request.headers['host']}{request.scope['path']}")))
    with serve([filled], ConsoleSettings(read_only=True)) as address:
        parts = urlsplit(address)
        csrf = ask(f"{address}/topics").cookies[CSRF_COOKIE]
        body = urlencode({"csrf": csrf, "topic": "forged", "partitions": "1"})
        for host in (
            "localhost:80/login?x=",
            "localhost/static/?",
            "localhost?",
            "localhost:80#",
            "localhost:80:80",
            "[::1]/login?",
        ):
            with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as connection:
                connection.sendall(
                    f"POST /topics/create HTTP/1.1\r\nHost: {host}\r\nCookie: {CSRF_COOKIE}={csrf}\r\nConnection: close\r\n"
                    f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
                )
                answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
            assert answer.split(" ")[1] == "400", (host, answer[:200])
        assert ask(f"{address}/topics/forged").status == 404, "nothing was created"


def closed_after(connection: socket.socket) -> bool:
    """True once the server has closed a connection; fails after its timeout."""
    with suppress(ConnectionError):
        while connection.recv(65_536):
            pass
    return True


def test_half_requests_are_cut_off(filled: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends the beginning of a request holds a connection for a while and no longer, however slowly more of it comes."""
    monkeypatch.setattr("headrace.web.http.server.HEAD_S", 0.5)
    monkeypatch.setattr("headrace.web.console.routes.FORM_S", 0.5)
    half_form = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\nConnection: close\r\n\r\ncsrf="
    with serve([filled]) as address, ExitStack() as stack:
        port = urlsplit(address).port or 0
        halves = (b"", b"GET /topics", b"GET /topics HTTP/1.1\r\nHost: localhost\r\n", half_form)
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(40)]
        for connection, half in zip(connections, cycle(halves), strict=False):
            connection.sendall(half)
        assert all(closed_after(connection) for connection in connections)


def test_one_address_never_takes_all_connections(filled: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.http.server.CONNECTIONS_PER_ADDRESS_MAX", 5)
    with serve([filled]) as address, ExitStack() as stack:
        port = urlsplit(address).port or 0
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(5)]
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one_too_many:
            assert closed_after(one_too_many)
        with socket.create_connection(("127.0.0.1", port), timeout=30, source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.1 200 "), "another address is served"
        held[0].sendall(b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held[0].recv(100).startswith(b"HTTP/1.1 200 ")


def test_command_serves_the_console_with_these_limits(database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: configs.append(server.config))
    arguments = ["console", "--dsn", database.dsn, "--port", "0"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert [config.http for config in configs] == [HeadTimeoutProtocol]


def test_every_answer_has_the_security_headers(site: Running) -> None:
    for path in ("/topics", "/nowhere", "/static/console.css", "/topics?format=csv", "/palette?q=a"):
        headers = ask(site.url(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    cookie = ask(site.url("/topics")).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie


@pytest.fixture(scope="module")
def guarded(filled: Target) -> Iterator[str]:
    """A console with tokens: Ada may change, Bob only read."""
    login = TokenLogin({ADA[1]: User("ada", "lab_admin"), BOB[1]: User("bob", "lab_reader", read_only=True)})
    with serve([filled], ConsoleSettings(login=login)) as address:
        yield address


def sign_in(address: str, token: str, *, next_url: str = "/topics") -> tuple[Answer, dict[str, str]]:
    csrf = ask(f"{address}/login").cookies[CSRF_COOKIE]
    form = {"csrf": csrf, "token": token, "next": next_url}
    answer = ask(f"{address}/login", method="POST", form=form, headers={"cookie": f"{CSRF_COOKIE}={csrf}"})
    cookies = {CSRF_COOKIE: csrf, **answer.cookies}
    return answer, {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}


def test_without_a_token_there_is_only_the_login(guarded: str) -> None:
    answer = ask(f"{guarded}/topics?q=a")
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Ftopics%3Fq%3Da")
    for path in ("/topics?format=json", "/topics?live=stream", "/topics?live=part"):
        assert ask(f"{guarded}{path}").status == 401, path
    assert ask(f"{guarded}/topics/create", method="POST", form={}).status == 401
    page = ask(f"{guarded}/login").text
    assert "parcels" not in page and 'name="namespace"' not in page, "the login page shows nothing of the database"


def test_token_signs_in_and_the_database_acts_as_its_role(guarded: str) -> None:
    answer, cookies = sign_in(guarded, ADA[0])
    assert (answer.status, answer.headers["location"]) == (303, "/topics")
    page = ask(f"{guarded}/topics", headers=cookies).text
    assert "parcels" in page and "orders" not in page, "lab_admin sees namespace lab only"
    assert ask(f"{guarded}/topics/orders?namespace=default", headers=cookies).status == 404
    bearer = {"authorization": f"Bearer {BOB[0]}"}
    assert "parcels" in ask(f"{guarded}/topics?format=json", headers=bearer).text
    assert ADA[0] not in cookies["cookie"] and ADA[1] not in cookies["cookie"]


def test_person_signs_in_and_out(guarded: str, open_page: Pages) -> None:
    page = open_page(f"{guarded}/topics")
    check_looks(page, "login")
    page.get_by_label("Token").fill(ADA[0])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto(f"{guarded}/topics")
    expect(page.get_by_label("Token")).to_be_visible()


def test_prometheus_scrapes_with_a_token_and_sees_what_its_role_sees(guarded: str) -> None:
    assert ask(f"{guarded}/metrics").status == 401
    answer = ask(f"{guarded}/metrics", headers={"authorization": f"Bearer {BOB[0]}"})
    assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    lines = answer.text.splitlines()
    assert any(line.startswith("headrace_sequenced_events_total{") and 'topic="parcels"' in line for line in lines)
    assert not any('topic="orders"' in line for line in lines)
    assert [line[-3:] for line in lines if line.startswith("headrace_database_up{")] == ["1.0"]


def test_wrong_token_and_foreign_address_lead_nowhere(guarded: str) -> None:
    answer, _ = sign_in(guarded, "guess")
    assert answer.status == 401 and "headrace_session" not in answer.cookies
    for evil in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        answer, _ = sign_in(guarded, ADA[0], next_url=evil)
        assert answer.headers["location"] == "/", evil


def test_every_route_is_one_that_reads_or_one_that_is_guarded() -> None:
    methods = {frozenset(route.methods or ()) for route in page_routes() if isinstance(route, Route)}
    assert methods == {frozenset({"GET", "HEAD"}), frozenset({"POST"})}
    assert len(CHANGING) > 25, "the routes are taken from the router"


def test_read_only_user_is_rejected_by_the_server(guarded: str) -> None:
    _, cookies = sign_in(guarded, BOB[0])
    csrf = cookies["cookie"].split("; ")[0].removeprefix(f"{CSRF_COOKIE}=")
    for path in CHANGING:
        answer = ask(f"{guarded}{concrete(path)}", method="POST", form={"csrf": csrf}, headers=cookies)
        assert answer.status == 403, path


def test_privileges_of_the_role_decide(guarded: str, filled: Target) -> None:
    login = TokenLogin({BOB[1]: User("bob", "lab_reader")})
    with serve([filled], ConsoleSettings(login=login)) as address:
        _, cookies = sign_in(address, BOB[0])
        csrf = cookies["cookie"].split("; ")[0].removeprefix(f"{CSRF_COOKIE}=")
        answer = ask(f"{address}/topics/create", method="POST", form={"csrf": csrf, "topic": "forged"}, headers=cookies)
        assert answer.status == 403
        assert "permission denied" in answer.text


def test_header_counts_only_from_the_trusted_proxy(filled: Target) -> None:
    header = {"x-remote-user": "ada"}
    for proxies, status in ((["127.0.0.1/32"], 200), (["10.0.0.0/8"], 401)):
        login = ProxyLogin("x-remote-user", proxies, roles={"ada": "lab_admin"})
        with serve([filled], ConsoleSettings(login=login)) as address:
            assert ask(f"{address}/topics", headers=header).status == status
            assert ask(f"{address}/topics", headers={"x-remote-user": "eve"}).status == 401
            assert ask(f"{address}/topics").status == 401


def test_host_application_names_the_user(filled: Target) -> None:
    login = HostLogin(lambda request: User("ada", "lab_admin") if request.headers.get("x-test") else None)
    with serve([filled], ConsoleSettings(login=login), base_path="/ops/headrace") as address:
        assert ask(f"{address}/topics").status == 401
        page = ask(f"{address}/topics", headers={"x-test": "1"})
        assert page.status == 200
        assert 'href="/ops/headrace/topics/parcels"' in page.text
        assert ask(f"{address}/static/console.css").status == 200


def test_session_ends_at_sign_out_and_by_itself(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the cookie is worth nothing afterwards; other sessions of the same person go on."""
    answer, cookies = sign_in(guarded, ADA[0])
    _, other = sign_in(guarded, ADA[0])
    assert f"Max-Age={IDLE_S}" in answer.headers["set-cookie"]
    assert ask(f"{guarded}/topics", headers=cookies).status == 200
    sign_out(guarded, cookies)
    for headers in (cookies, {**cookies, "authorization": "Basic eDp5"}):
        assert ask(f"{guarded}/topics?format=json", headers=headers).status == 401
    assert ask(f"{guarded}/topics", headers=other).status == 200
    now = time()
    monkeypatch.setattr("headrace.web.console.login.time", lambda: now + IDLE_S + 1)
    assert ask(f"{guarded}/topics?format=json", headers=other).status == 401
    monkeypatch.undo()
    name, value = other["cookie"].split("; ")[1].split("=", 1)
    nonce, start, issued, signature = value.split(".")
    for forged in (
        f"{nonce}.{start}.{int(issued) + 1}.{signature}",
        f"{nonce}.{int(start) + 1}.{issued}.{signature}",
        f"{nonce}x.{start}.{issued}.{signature}",
        f"{nonce}.{start}.{issued}.",
        f"{nonce}.{start}",
        "...",
    ):
        assert ask(f"{guarded}/topics?format=json", headers={"cookie": f"{name}={forged}"}).status == 401


def test_pages_that_are_asked_for_renew_the_session_until_its_end(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that renew themselves: nobody may sit in front of them."""
    _, cookies = sign_in(guarded, ADA[0])
    start = time()
    assert COOKIE not in ask(f"{guarded}/topics", headers=cookies).cookies, "a young cookie is not renewed"
    for later_s in range(IDLE_S // 2, SESSION_S, IDLE_S // 2):
        monkeypatch.setattr("headrace.web.console.login.time", lambda later_s=later_s: start + later_s)
        assert COOKIE not in ask(f"{guarded}/topics?live=part", headers=cookies).cookies
        renewed = ask(f"{guarded}/topics", headers=cookies).cookies[COOKIE]
        cookies = {"cookie": f"{cookies['cookie'].split('; ')[0]}; {COOKIE}={renewed}"}
    monkeypatch.setattr("headrace.web.console.login.time", lambda: start + SESSION_S + 1)
    assert ask(f"{guarded}/topics?format=json", headers=cookies).status == 401


def test_sign_out_counts_in_other_processes_and_after_a_restart(filled: Target) -> None:
    def settings() -> ConsoleSettings:
        # Each process has its own.
        return ConsoleSettings(login=TokenLogin({ADA[1]: User("ada", "lab_admin")}))

    with serve([filled], settings()) as first, serve([filled], settings()) as second:
        _, cookies = sign_in(first, ADA[0])
        assert ask(f"{second}/topics?format=json", headers=cookies).status == 200
        sign_out(first, cookies)
        wait_until(
            lambda: ask(f"{second}/topics?format=json", headers=cookies).status == 401, "the sign-out in the other process"
        )
    with serve([filled], settings()) as restarted:
        assert ask(f"{restarted}/topics?format=json", headers=cookies).status == 401
    with psycopg.connect(filled.dsn) as conn:
        conn.execute("set session authorization lab_admin")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select headrace_internal.ended_sessions()")


def test_sign_out_counts_while_a_process_asks_for_the_first_time(filled: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ConsoleSettings(login=TokenLogin({ADA[1]: User("ada", "lab_admin")}))
    with serve([filled], settings) as address:
        _, cookies = sign_in(address, ADA[0])
        sign_out(address, cookies)
    read, asked, may_answer = EndedSessions._read, threading.Semaphore(0), threading.Event()

    def read_slowly(sessions: EndedSessions) -> frozenset[str]:
        asked.release()
        assert may_answer.wait(30)
        return read(sessions)

    monkeypatch.setattr(EndedSessions, "_read", read_slowly)
    with serve([filled], settings) as restarted, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, f"{restarted}/topics?format=json", headers=cookies)
        assert asked.acquire(timeout=30)
        second = pool.submit(ask, f"{restarted}/topics?format=json", headers=cookies)
        wait_until(lambda: second.done() or asked.acquire(blocking=False), "the second request")
        may_answer.set()
        assert (first.result(30).status, second.result(30).status) == (401, 401)


def test_open_page_shows_nothing_after_the_sign_out(guarded: str) -> None:
    _, cookies = sign_in(guarded, ADA[0])
    parts = urlsplit(guarded)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("GET", "/topics?live=stream", headers=cookies)
    stream = connection.getresponse()
    while not stream.readline().startswith(b"event: live"):
        pass
    sign_out(guarded, cookies)
    assert b"event:" not in stream.read(), "it ends, without another update"
    connection.close()


def test_strangers_cannot_send_large_forms(guarded: str) -> None:
    csrf = ask(f"{guarded}/login").cookies[CSRF_COOKIE]
    headers = {"cookie": f"{CSRF_COOKIE}={csrf}"}
    for size, status in ((10_000, 303), (20_000, 403)):
        form = {"csrf": csrf, "token": ADA[0], "next": "/topics", "more": "x" * size}
        assert ask(f"{guarded}/login", method="POST", form=form, headers=headers).status == status
    _, signed_in = sign_in(guarded, ADA[0])
    csrf = signed_in["cookie"].split("; ")[0].removeprefix(f"{CSRF_COOKIE}=")
    form = {"csrf": csrf, "topic": "no name!", "more": "x" * 20_000}
    assert ask(f"{guarded}/topics/create", method="POST", form=form, headers=signed_in).status == 422


def sign_out(address: str, cookies: Mapping[str, str]) -> None:
    csrf = cookies["cookie"].split("; ")[0].removeprefix(f"{CSRF_COOKIE}=")
    assert ask(f"{address}/logout", method="POST", form={"csrf": csrf}, headers=cookies).status == 303
