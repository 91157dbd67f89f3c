"""The scheme by itself: only a request that the signing secret has signed, and just now, is accepted."""

from __future__ import annotations

import hmac
import time
from hashlib import sha256

import pytest
from headrace_signature_slack import SLACK

from headrace.core import InvalidSignature

BODY = b'{"event_id": "Ev1", "event": {"type": "message", "channel": "C1"}}'


def sign(secret: str, body: bytes, *, age_s: int = 0) -> dict[str, str]:
    signed_at = str(int(time.time()) - age_s)
    digest = hmac.new(secret.encode(), f"v0:{signed_at}:".encode() + body, sha256).hexdigest()
    return {"x-slack-request-timestamp": signed_at, "x-slack-signature": f"v0={digest}"}


def verify(headers: dict[str, str], body: bytes = BODY) -> None:
    SLACK.verify(["new", "old"], headers.get, body, window_s=300)


def test_each_secret_may_sign_while_one_replaces_the_other() -> None:
    verify(sign("new", BODY))
    verify(sign("old", BODY))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (sign("wrong", BODY), BODY),
        (sign("new", BODY), BODY + b" "),
        (sign("new", BODY, age_s=400), BODY),
        ({**sign("new", BODY), "x-slack-signature": "v0="}, BODY),
        ({**sign("new", BODY), "x-slack-request-timestamp": "nan"}, BODY),
        ({"x-slack-request-timestamp": "1"}, BODY),
        ({}, BODY),
    ],
    ids=["secret", "body", "old", "empty", "time", "no signature", "nothing"],
)
def test_other_requests_are_rejected(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(InvalidSignature):
        verify(headers, body)
