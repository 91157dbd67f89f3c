"""POST /hooks/…: signatures of every scheme, mappings, secrets, rotation."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from standardwebhooks import Webhook as StandardWebhook

from headrace.core import Conflict, Invalid, InvalidHook, UnknownHook, UnknownTopic, derive_event_id
from headrace.db import create_namespace
from headrace.log.topics import create_topic
from headrace.web.http import alter_hook, create_hook, drop_hook, get_hook, list_hooks
from tests.builders import wait_until
from tests.web.http.conftest import Client, RunningServer

SECRETS = {
    "OLD": "b2xkIHNlY3JldCBvZiBoZWFkcmFjZQ==",
    "NEW": "bmV3IHNlY3JldCBvZiBoZWFkcmFjZQ==",
}
WRONG = "d3Jvbmcgc2VjcmV0IG9mIGhlYWRyYWNl"
BODY = json.dumps({"type": "invoice.paid", "id": "evt_1", "data": {"object": {"id": "in_7", "total": 12}}}).encode()


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(f"HEADRACE_SECRET_DEFAULT__{name}", secret)
    monkeypatch.setenv("HEADRACE_SECRETS", str(tmp_path))
    yield tmp_path


def hex_digest(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, sha256).hexdigest()


def sign_standard(secret: str, body: bytes, at: int) -> dict[str, str]:
    signature = StandardWebhook(secret).sign("msg_1", datetime.fromtimestamp(at, UTC), body.decode())
    return {"webhook_id": "msg_1", "webhook_timestamp": str(at), "webhook_signature": f"v1a,xx {signature}"}


def sign_github(secret: str, body: bytes, _at: int) -> dict[str, str]:
    signature = f"sha256={hex_digest(secret, body)}"
    return {"x_github_event": "push", "x_github_delivery": "d-1", "x_hub_signature_256": signature}


def sign_stripe(secret: str, body: bytes, at: int) -> dict[str, str]:
    signature = hex_digest(secret, f"{at}.".encode() + body)
    return {"stripe_signature": f"t={at},v0=00,v1={'0' * 64},v1={signature}"}


def sign_token(secret: str, _body: bytes, _at: int) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


SIGN: dict[str, Callable[[str, bytes, int], dict[str, str]]] = {
    "standard-webhooks": sign_standard,
    "github": sign_github,
    "stripe": sign_stripe,
    "token": sign_token,
}
TIMED = ("standard-webhooks", "stripe")


def send(http_server: RunningServer, hook: str, body: bytes, headers: dict[str, str], **more: str) -> Any:
    return Client(http_server.port).post(f"/hooks/{hook}", body, **{"content_type": "application/json", **headers, **more})


@pytest.mark.parametrize("scheme", SIGN)
def test_signature_decides(http_server: RunningServer, topic: str, scheme: Any) -> None:
    hook, sign, now = f"{scheme}-decides", SIGN[scheme], int(time.time())
    create_hook(http_server.conn, hook, topic, scheme, ["env:NEW", "env:OLD"], mapping={"type": "paid", "id": "{body:id}"})
    for secret in SECRETS.values():
        answer = send(http_server, hook, BODY, sign(secret, BODY, now))
        assert answer.status == 201, answer.body
    refused = [(BODY, sign(WRONG, BODY, now)), (BODY, {})]
    if scheme != "token":
        refused.append((BODY.replace(b"12", b"13"), sign(SECRETS["NEW"], BODY, now)))
        (name, signature), *_ = [(k, v) for k, v in sign(SECRETS["NEW"], BODY, now).items() if "signature" in k]
        refused += [
            (BODY, {**sign(SECRETS["NEW"], BODY, now), name: text}) for text in ("", "x", "v1,", "=", "t=1", signature[:-8])
        ]
    if scheme in TIMED:
        refused += [(BODY, sign(SECRETS["NEW"], BODY, now + shift)) for shift in (-310, 310)]
    for body, headers in refused:
        answer = send(http_server, hook, body, headers)
        assert (answer.status, answer.error) == (401, "InvalidSignature"), headers
        assert not any(secret in answer.body.decode() for secret in (*SECRETS.values(), hex_digest(SECRETS["NEW"], BODY)))
    (event,) = http_server.log(topic)
    assert (event.type, event.payload, event.headers) == ("paid", json.loads(BODY), {"webhook_id": "evt_1"})
    assert event.producer == f"/hooks/default/{hook}"


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("standard-webhooks", ("invoice.paid", None, "msg_1")),
        ("github", ("github.push", None, "d-1")),
        ("stripe", ("stripe.invoice.paid", "in_7", "evt_1")),
        ("token", ("default-token.received", None, None)),
    ],
)
def test_each_scheme_has_a_mapping(http_server: RunningServer, topic: str, scheme: Any, expected: tuple[object, ...]) -> None:
    create_hook(http_server.conn, f"default-{scheme}", topic, scheme, ["env:NEW"])
    assert (
        send(http_server, f"default/default-{scheme}", BODY, SIGN[scheme](SECRETS["NEW"], BODY, int(time.time()))).status == 201
    )
    (event,) = http_server.log(topic)
    assert (event.type, event.key, event.headers.get("webhook_id")) == expected


def test_timed_window_is_that_of_the_hook(http_server: RunningServer, topic: str) -> None:
    create_hook(http_server.conn, "narrow", topic, "stripe", ["env:NEW"], window_s=10)
    late = sign_stripe(SECRETS["NEW"], BODY, int(time.time()) - 20)
    assert send(http_server, "narrow", BODY, late).status == 401
    alter_hook(http_server.conn, "narrow", window_s=3600)
    wait_until(lambda: send(http_server, "narrow", BODY, late).status == 201, "the new window")


def test_secret_is_rotated_without_a_gap(http_server: RunningServer, topic: str) -> None:
    create_hook(http_server.conn, "turning", topic, "github", ["env:OLD"])
    old, new = (sign_github(SECRETS[name], BODY, 0) for name in ("OLD", "NEW"))
    assert (send(http_server, "turning", BODY, old).status, send(http_server, "turning", BODY, new).status) == (201, 401)
    alter_hook(http_server.conn, "turning", secrets=["env:NEW", "env:OLD"])
    wait_until(lambda: send(http_server, "turning", BODY, new).status == 201, "the new secret")
    assert send(http_server, "turning", BODY, old).status == 201
    alter_hook(http_server.conn, "turning", secrets=["env:NEW"])
    wait_until(lambda: send(http_server, "turning", BODY, old).status == 401, "the end of the old secret")
    assert len(http_server.log(topic)) == 1


def test_secret_in_a_file_of_its_namespace(http_server: RunningServer, secrets: Path) -> None:
    create_namespace(http_server.conn, "billing")
    create_topic(http_server.conn, "bills", namespace="billing")
    (secrets / "billing.stripe").write_text(f"{WRONG}\n")
    (secrets / "stripe").write_text(SECRETS["NEW"])
    create_hook(http_server.conn, "bills", "bills", "stripe", ["file:stripe"], namespace="billing")
    now = int(time.time())
    assert send(http_server, "billing/bills", BODY, sign_stripe(SECRETS["NEW"], BODY, now)).status == 401
    assert send(http_server, "billing/bills", BODY, sign_stripe(WRONG, BODY, now)).status == 201
    assert send(http_server, "bills", BODY, sign_stripe(WRONG, BODY, now)).status == 404, (
        "the short path is the namespace default"
    )
    assert [event.key for event in http_server.log("bills", "billing")] == ["in_7"]


def test_hook_without_its_secret_is_503_and_the_log_names_the_variable(
    http_server: RunningServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_namespace(http_server.conn, "other")
    create_topic(http_server.conn, topic, namespace="other")
    # A secret of the namespace default, by its name: it is not found.
    create_hook(http_server.conn, "lost", topic, "token", ["env:NEW"], namespace="other")
    answer = send(http_server, "other/lost", BODY, sign_token(SECRETS["NEW"], BODY, 0))
    assert answer.status == 503 and "HEADRACE" not in answer.body.decode()
    assert "HEADRACE_SECRET_OTHER__NEW is not set" in caplog.text and SECRETS["NEW"] not in caplog.text


@pytest.mark.parametrize("reference", [WRONG, "env:", "env:a", "env:A__B", "env:_A", "env:A_", "file:../x", "file:a/b", "file:", "file:.x",
                                       "env:A env:B", "env:A\n", "whsec_" + WRONG])  # fmt: skip
def test_secret_itself_is_refused_and_not_shown(http_server: RunningServer, topic: str, reference: str) -> None:
    with pytest.raises(InvalidHook) as error:
        create_hook(http_server.conn, "leak", topic, "token", [reference])
    assert reference not in str(error.value) or len(reference) < 6
    with pytest.raises(Exception, match="cannot be stored"):
        http_server.conn.execute("select headrace.create_hook('leak', %s, 'token', %s)", (topic, [reference, "env:OK"]))


def test_unknown_switched_off_and_dropped_hooks_are_404(http_server: RunningServer, topic: str) -> None:
    create_hook(http_server.conn, "off", topic, "token", ["env:NEW"])
    headers = sign_token(SECRETS["NEW"], BODY, 0)
    assert send(http_server, "off", BODY, headers).status == 201
    alter_hook(http_server.conn, "off", active=False)
    wait_until(lambda: send(http_server, "off", BODY, headers).status == 404, "the end of the hook")
    alter_hook(http_server.conn, "off", active=True)
    wait_until(lambda: send(http_server, "off", BODY, headers).status == 201, "the hook again")
    drop_hook(http_server.conn, "off")
    wait_until(lambda: send(http_server, "off", BODY, headers).status == 404, "the end of the hook")
    assert send(http_server, "never", BODY, headers).error == "UnknownHook"
    assert send(http_server, "no/where", BODY, headers).error == "UnknownHook"


def test_github_form_and_bad_bodies(http_server: RunningServer, topic: str) -> None:
    create_hook(http_server.conn, "forms", topic, "github", ["env:NEW"])
    form = urlencode({"payload": BODY.decode()}).encode()
    kind = "application/x-www-form-urlencoded"
    assert send(http_server, "forms", form, sign_github(SECRETS["NEW"], form, 0), content_type=kind).status == 201
    for body, content_type, status in (
        (b"payload=1&payload=2", kind, 400),
        (b"x=1", kind, 400),
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b'{"a": "\\u0000"}', "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
    ):
        answer = send(http_server, "forms", body, sign_github(SECRETS["NEW"], body, 0), content_type=content_type)
        assert answer.status == status, (body[:20], answer.body)
    (event,) = http_server.log(topic)
    assert event.payload == json.loads(BODY)


def test_mapping_takes_headers_query_and_fields(http_server: RunningServer, topic: str) -> None:
    mapping = {
        "type": "{query:system}.{body:items.1.kind}.{body:action|none}",
        "key": "{header:X-Tenant}/{body:n}/{body:flag}",
        "payload": "{body:items.1}",
    }
    create_hook(http_server.conn, "mapped", topic, "token", ["env:NEW"], mapping=mapping)
    body = b'{"n": 12, "flag": true, "items": [{}, {"kind": "b", "exact": 1.10}], "action": null}'
    headers = sign_token(SECRETS["NEW"], body, 0)
    assert send(http_server, "mapped?system=crm", body, headers, x_tenant="t").status == 201
    answer = send(http_server, "mapped", body, headers)
    assert (answer.status, answer.error) == (422, "InvalidHook")
    (event,) = http_server.log(topic)
    assert (event.type, event.key, event.payload) == ("crm.b.none", "t/12/true", {"kind": "b", "exact": 1.1})


@pytest.mark.parametrize(
    "mapping",
    [
        {"typ": "a"},
        {"type": ""},
        {"type": "{body}"},
        {"type": "{header}"},
        {"type": "{env:HOME}"},
        {"type": "{body:a"},
        {"type": "{body:a..b}"},
        {"payload": "x{body}"},
        {"payload": "{header:a}"},
        {"payload": "{body:a|b}"},
        {"key": "k" * 1001},
    ],
)
def test_bad_mapping_is_refused(http_server: RunningServer, mapping: dict[str, str]) -> None:
    with pytest.raises(InvalidHook):
        create_hook(http_server.conn, "bad", "orders", "github", ["env:NEW"], mapping=mapping)


def test_hooks_are_listed_and_errors_are_ours(http_server: RunningServer, topic: str) -> None:
    create_hook(http_server.conn, "listed", topic, "github", ["env:NEW"])
    assert get_hook(http_server.conn, "listed") in list_hooks(http_server.conn)
    with pytest.raises(Conflict):
        create_hook(http_server.conn, "listed", topic, "github", ["env:NEW"])
    with pytest.raises(UnknownTopic):
        create_hook(http_server.conn, "no-topic", "none", "github", ["env:NEW"])
    with pytest.raises(UnknownHook):
        drop_hook(http_server.conn, "none")
    with pytest.raises(Invalid):
        create_hook(http_server.conn, "Bad name", topic, "github", ["env:NEW"])
    with pytest.raises(Invalid):
        create_hook(http_server.conn, "scheme", topic, "md5", ["env:NEW"])  # type: ignore[arg-type]


def test_sender_cannot_choose_the_id_of_anothers_event(http_server: RunningServer, topic: str) -> None:
    own = http_server.client().post(f"/topics/{topic}/events?type=a", {}).json["ids"][0]
    create_hook(http_server.conn, "forger", topic, "token", ["env:NEW"], mapping={"id": "{body:id}"})
    body = json.dumps({"id": own}).encode()
    assert send(http_server, "forger", body, sign_token(SECRETS["NEW"], body, 0)).json["ids"] != [own]
    assert len(http_server.log(topic)) == 2


def test_holder_of_a_token_cannot_take_the_id_of_a_webhook_beforehand(http_server: RunningServer, topic: str) -> None:
    """Whoever knows the hook's name and the delivery's id, and publishes under what is derived from them, keeps nobody out."""
    create_hook(http_server.conn, "wanted", topic, "token", ["env:NEW"], mapping={"id": "{body:id}"})
    source = "/hooks/default/wanted"
    thief = http_server.client("publish")
    event = {"specversion": "1.0", "source": source, "type": "forged", "data": {}}
    for id in ("evt_1", str(derive_event_id(source, "evt_1"))):
        taken = thief.post(f"/topics/{topic}/events", {**event, "id": id}, content_type="application/cloudevents+json")
        assert taken.status in (200, 201)
    body = json.dumps({"id": "evt_1", "total": 5}).encode()
    answers = [send(http_server, "wanted", body, sign_token(SECRETS["NEW"], body, 0)).json["ids"] for _ in range(2)]
    assert answers[0] == answers[1], "the same delivery twice is one event"
    assert [event.payload for event in http_server.log(topic) if event.producer == source and event.type != "forged"] == [
        {"id": "evt_1", "total": 5}
    ]
