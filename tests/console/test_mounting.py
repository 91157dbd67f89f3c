"""The console inside other applications, its settings file, its browser libraries, its command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from headrace.console import ConsoleSettings, HostLogin, ProxyLogin, TokenLogin, User, create_app, read_settings
from headrace.console.assets import AssetError, Library, check_integrity, fetch
from headrace.core import Invalid
from headrace.db import Target
from tests.builders import ROOT, wait_until
from tests.cli.conftest import call
from tests.console.conftest import serve
from tests.console.test_guard import ask

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


def django_host(database: Target) -> Any:
    """As an asgi.py: what is not the console's goes to Django."""
    console = create_app([database], ConsoleSettings(login=HostLogin(lambda request: User("ada"))), base_path="/ops")

    async def dispatch(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/ops"):
            await console(scope, receive, send)  # type: ignore[arg-type]

    return dispatch


@pytest.mark.parametrize("host", [fastapi_host, django_host])
def test_mounted_console_stays_below_its_path(filled: Target, host: Any) -> None:
    with run_app(host(filled)) as address:
        for path in ("/ops/", "/ops/topics", "/ops/consumers/orders/shipping"):
            answer = ask(f"{address}{path}")
            assert answer.status == 200, path
            links = LINKS.findall(answer.text)
            assert [link for link in links if not link.startswith("/ops/")] == []
        assert ask(f"{address}/ops/static/console.css").status == 200
        assert "Path=/ops/" in answer.headers["set-cookie"]


def test_several_shards_are_shown_together_and_one_that_is_down_is_named(filled: Target) -> None:
    shards = [Target("east", filled.dsn), Target("west", "postgresql://nobody@127.0.0.1:1/none")]
    with serve(shards, ConsoleSettings()) as address:
        answer = ask(f"{address}/topics")
        assert answer.status == 200
        assert "Shard west does not answer" in answer.text and "orders" in answer.text
        assert ask(f"{address}/topics?shard=west").status == 503
        assert ask(f"{address}/topics?shard=north").status == 404
        assert json.loads(ask(f"{address}/topics?shard=east&format=json").text)[0]["shard"] == "east"


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
    for text, message in (("tokn = 1", "unknown field"), ("[[token]]\nname = 'x'", "sha256"), ("= 1", "console.toml")):
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
    library = Library("htmx.org", "4.0.0", "sha512-AAAA", {"dist/htmx.min.js": "htmx.js"})
    with pytest.raises(AssetError, match=r"has integrity sha512-.*expected sha512-AAAA; nothing was installed"):
        check_integrity(library, package)


def test_without_npm_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssetError, match="npm is not installed"):
        fetch(tmp_path / "vendor")
    assert not (tmp_path / "vendor").exists()
