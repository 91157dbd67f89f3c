"""The console inside other applications, its settings file, its browser libraries, its command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from headrace.core import Invalid
from headrace.db import Target
from headrace.db.server import free_port
from headrace.web.console import ConsoleSettings, HostLogin, ProxyLogin, TokenLogin, User, create_app, read_settings
from headrace.web.console.assets import AssetError, File, Library, check_integrity, fetch
from headrace.web.console.guard import CSRF_COOKIE
from tests.builders import ROOT, wait_until
from tests.cli.conftest import call
from tests.web.console.addresses import page_addresses
from tests.web.console.conftest import Databases, serve
from tests.web.console.test_guard import ask

LINKS = re.compile(r'(?:href|src|action|data-stream|data-palette)="([^"#][^"]*)"')


@contextmanager
def run_app(app: Any) -> Iterator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1)
    socket, server = config.bind_socket(), uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the start of the application")
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


def fastapi_host(database: Target) -> Any:
    app = FastAPI()
    app.mount("/ops", create_app([database], ConsoleSettings(login=HostLogin(lambda request: User("ada")))))
    return app


def starlette_host(database: Target) -> Any:
    async def who(request: HTTPConnection) -> User | None:
        return User("ada")

    return Starlette(routes=[Mount("/ops", create_app([database], ConsoleSettings(login=HostLogin(who))))])


def assert_stays_below(address: str, headers: Mapping[str, str] | None = None) -> None:
    """All links, forms and cookies of the console are below /ops/."""
    for path in ("/ops/", "/ops/topics", "/ops/consumers/orders/shipping", "/ops/correlators/unpaid", "/ops/events?topic=orders"):
        answer = ask(f"{address}{path}", headers=headers)
        assert answer.status == 200, path
        assert [link for link in LINKS.findall(answer.text) if not link.startswith("/ops/")] == [], path
    assert ask(f"{address}/ops/static/console.css").status == 200
    assert "Path=/ops/" in answer.headers["set-cookie"]


@pytest.mark.parametrize("host", [fastapi_host, starlette_host])
def test_mounted_console_stays_below_its_path(filled: Target, host: Any) -> None:
    with run_app(host(filled)) as address:
        assert_stays_below(address)


@pytest.mark.parametrize("host", [fastapi_host, starlette_host])
def test_mounted_console_changes_things(filled: Target, host: Any) -> None:
    with run_app(host(filled)) as address:
        csrf = ask(f"{address}/ops/topics").cookies[CSRF_COOKIE]
        form = {"csrf": csrf, "reason": "mounted"}
        for change in ("pause", "resume"):
            url = f"{address}/ops/consumers/parcels/sorting/{change}?namespace=lab"
            answer = ask(url, method="POST", form=form, headers={"cookie": f"{CSRF_COOKIE}={csrf}"})
            assert (answer.status, answer.headers["location"]) == (303, "/ops/consumers/parcels/sorting?namespace=lab")


DJANGO = """
import os, sys
import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpResponse
from django.urls import path

settings.configure(
    SECRET_KEY="test", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SQLITE"]}},
)
django.setup()
from django.contrib.auth import SESSION_KEY, get_user_model, login
from django.contrib.sessions.backends.db import SessionStore
from django.core.asgi import get_asgi_application
from django.core.management import call_command

from headrace.web.console import ConsoleSettings, HostLogin, User, create_app
from headrace.db import Target

call_command("migrate", verbosity=0)
get_user_model().objects.get_or_create(username="ada", is_staff=True)


def enter(request):
    login(request, get_user_model().objects.get(username="ada"))
    return HttpResponse("in")


urlpatterns = [path("enter", enter)]


@sync_to_async
def who(request):
    number = SessionStore(request.cookies.get(settings.SESSION_COOKIE_NAME)).get(SESSION_KEY)
    user = get_user_model().objects.filter(pk=number, is_staff=True).first()
    return User(user.username) if user else None


console = create_app([Target("shop", os.environ["DSN"])], ConsoleSettings(login=HostLogin(who)), base_path="/ops")
django_app = get_asgi_application()


async def application(scope, receive, send):
    await (console if scope["path"].startswith("/ops/") else django_app)(scope, receive, send)
"""


def test_django_mounts_the_console_and_its_login_counts(filled: Target, tmp_path: Path) -> None:
    (tmp_path / "shop_asgi.py").write_text(DJANGO)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}", "DSN": filled.dsn, "SQLITE": str(tmp_path / "db")}
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "shop_asgi:application", "--port", str(port), "--lifespan", "off"]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen([*command, "--log-level", "error"], env=environment) as process:
        try:
            wait_until(lambda: _answers(f"{address}/ops/"), "Django's first answer", timeout_s=60)
            assert ask(f"{address}/ops/topics").status == 401, "nobody is signed in"
            session = re.findall(r"sessionid=([^;,]+)", ask(f"{address}/enter").headers["set-cookie"])[0]
            assert_stays_below(address, {"cookie": f"sessionid={session}"})
            assert ask(f"{address}/ops/topics", headers={"cookie": "sessionid=forged"}).status == 401
        finally:
            process.terminate()
            process.wait(timeout=20)


def test_several_shards_are_shown_together_and_one_that_is_down_is_named(filled: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.console.site.WAIT_S", 1.0)
    shards = [Target("east", filled.dsn), Target("west", "postgresql://nobody@127.0.0.1:1/none")]
    with serve(shards, ConsoleSettings()) as address:
        answer = ask(f"{address}/topics")
        assert answer.status == 200
        assert "Shard west does not answer" in answer.text and "orders" in answer.text
        assert ask(f"{address}/topics?shard=west").status == 503
        assert ask(f"{address}/topics?shard=north").status == 404
        assert json.loads(ask(f"{address}/topics?shard=east&format=json").text)[0]["shard"] == "east"


def test_every_page_shows_two_shards_together(databases: Databases) -> None:
    shards = [Target("east", databases.filled.dsn), Target("west", databases.untouched.dsn)]
    with serve(shards, ConsoleSettings()) as address:
        for route, path in page_addresses(databases.untouched, "default").items():
            answer = ask(address + path)
            assert answer.status == 200, (route, answer.text[:2_000])
        for path in ("/topics", "/consumers", "/events?topic=orders&limit=200", "/dead-letters", "/rules", "/schedules"):
            page = ask(address + path).text
            assert "east" in page and "west" in page, path
            rows = json.loads(ask(f"{address}{path}{'&' if '?' in path else '?'}format=json").text)
            assert {row["shard"] for row in rows} == {"east", "west"}, path
        [only] = {row["shard"] for row in json.loads(ask(f"{address}/topics?shard=west&format=json").text)}
        assert only == "west"


def test_many_requests_share_one_connection(filled: Target) -> None:
    """None holds a connection while it waits for another: with a pool of one that would wait until the time-out."""
    with serve([filled], ConsoleSettings(pool_size=1)) as address, ThreadPoolExecutor(8) as threads:
        paths = ["/topics", "/consumers", "/events?topic=orders", "/"] * 2
        assert [answer.status for answer in threads.map(lambda path: ask(address + path), paths)] == [200] * 8


def test_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "console.toml"
    path.write_text(
        'hosts = ["ops.example"]\nread_only = true\n[masks]\n"customer.email" = ["support"]\n'
        '[[token]]\nname = "ada"\nsha256 = "00ff"\nrole = "shop_admin"\n'
    )
    settings = read_settings(path)
    assert settings.login == TokenLogin({"00ff": User("ada", "shop_admin")})
    assert (settings.read_only, list(settings.hosts), settings.masks) == (True, ["ops.example"], {"customer.email": ["support"]})
    path.write_text('[proxy]\nheader = "x-user"\nproxies = ["10.0.0.1/32"]\nroles = { ada = "shop" }\n')
    assert read_settings(path).login == ProxyLogin("x-user", ["10.0.0.1/32"], {"ada": "shop"}, None)
    for text, message in (("tokn = 1", "no setting 'tokn'"), ("[[token]]\nname = 'x'", "sha256"), ("= 1", "console.toml")):
        path.write_text(text)
        with pytest.raises(Invalid, match=message):
            read_settings(path)


def test_command_refuses_to_be_open_to_the_world(filled: Target) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "console.example"):
        answer = call("console", "--host", host, "--dsn", filled.dsn)
        assert (answer.code, "does not listen on" in answer.err) == (5, True), host


def test_command_on_another_database_prints_a_token(filled: Target) -> None:
    command = [sys.executable, "-m", "headrace", "console", "--port", "0", "--json", "--dsn", filled.dsn]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        try:
            wait_until(lambda: _answers(printed["url"]), "the console's first answer")
            assert ask(printed["url"] + "topics").status == 303
            assert ask(printed["url"] + "topics", headers={"authorization": f"Bearer {printed['token']}"}).status == 200
        finally:
            process.terminate()
            assert process.wait(timeout=20) in (0, 143, -15)


def _answers(url: str) -> bool:
    try:
        return ask(url + "static/icon.svg").status == 200
    except OSError:
        return False


def test_library_that_is_not_the_pinned_one_is_not_installed(tmp_path: Path) -> None:
    package = tmp_path / "evil.tgz"
    with tarfile.open(package, "w:gz"):
        pass
    library = Library("htmx.org", "4.0.0", "sha512-AAAA", {"dist/htmx.min.js": File("htmx.js", "00")})
    with pytest.raises(AssetError, match=r"has integrity sha512-.*expected sha512-AAAA; nothing was installed"):
        check_integrity(library, package)


def test_changed_file_of_a_library_is_named_and_never_used_for_a_build(tmp_path: Path) -> None:
    files = {"a.js": File("a.js", sha256(b"a").hexdigest()), "b.js": File("b.js", sha256(b"b").hexdigest())}
    library = Library("letters", "1.0.0", "sha512-AAAA", files)
    (tmp_path / "versions.txt").write_text("letters 1.0.0 sha512-AAAA\n")
    (tmp_path / "a.js").write_bytes(b"a")
    (tmp_path / "b.js").write_bytes(b"b")
    assert fetch(tmp_path, libraries=[library]) == []
    (tmp_path / "b.js").write_bytes(b"evil")
    with pytest.raises(
        AssetError, match=r"were changed: b\.js has SHA-256 \w+, expected \w+ of letters 1\.0\.0; delete the folder"
    ):
        fetch(tmp_path, libraries=[library])
    (tmp_path / "b.js").write_bytes(b"b")
    assert fetch(tmp_path, libraries=[library]) == []
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.js").write_bytes(b"a")
    with pytest.raises(AssetError, match=r"were changed: more/a\.js belongs to no library; delete the folder"):
        fetch(tmp_path, libraries=[library])


def test_without_npm_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssetError, match="npm is not installed"):
        fetch(tmp_path / "vendor")
    assert not (tmp_path / "vendor").exists()
