"""A signature scheme that another package adds works like ours, and a server without the package accepts nothing."""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from pathlib import Path

import pytest

from headrace.core import PackageMissing
from headrace.web.http import create_hook
from tests.cli.conftest import call
from tests.example_packages import example_packages, installed_packages
from tests.web.http.conftest import Client, RunningServer

__all__ = ["example_packages", "installed_packages"]

BODY = b'{"event_id": "Ev1", "event": {"type": "message", "channel": "C1"}}'
SECRET = "shhh-signing"


def sign(secret: str) -> dict[str, str]:
    at = str(int(time.time()))
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + BODY, sha256).hexdigest()
    return {"x_slack_request_timestamp": at, "x_slack_signature": f"v0={digest}", "content_type": "application/json"}


def test_scheme_of_a_package_decides_and_maps(
    http_server: RunningServer, topic: str, example_packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__SLACK", SECRET)
    words = ("hook", "create", "slack", topic, "--scheme", "slack", "--secret", "env:SLACK", "--dsn", http_server.database.dsn)
    assert call(*words).code == 0
    client = Client(http_server.port)
    for _ in range(2):
        assert client.post("/hooks/slack", BODY, **sign(SECRET)).status == 201
    answer = client.post("/hooks/slack", BODY, **sign("wrong"))
    assert (answer.status, answer.error) == (401, "InvalidSignature")
    (event,) = http_server.log(topic)
    assert (event.type, event.key, event.headers) == ("slack.message", "C1", {"webhook_id": "Ev1"})


def test_server_without_the_package_accepts_nothing_and_its_log_says_why(
    http_server: RunningServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PackageMissing, match="there is no signature scheme 'githup'; did you mean 'github'"):
        create_hook(http_server.conn, "absent", topic, "githup", ["env:NEW"])
    http_server.conn.execute("select headrace.create_hook('absent', %s, 'absent', '{env:NEW}')", (topic,))
    answer = Client(http_server.port).post("/hooks/absent", BODY, **sign(SECRET))
    assert answer.status == 503 and "installed packages" not in answer.body.decode()
    assert "there is no signature scheme 'absent'" in caplog.text
    shown = call("hook", "show", "absent", "--dsn", http_server.database.dsn)
    assert shown.code == 0 and "absent" in shown.out
    assert http_server.log(topic) == []
