"""Signatures: does a webhook come from whoever has the secret? Pure, but for the clock.

Several secrets may be valid at once, while one replaces another. Comparisons take constant time. A signed time that lies outside of the
window is rejected, so that a recorded request cannot be sent again later; GitHub signs no time, there the delivery id, which becomes
the event id, makes a repeated request the same event."""

from __future__ import annotations

import binascii
import hmac
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

from headrace.web.http.problems import Problem

Header: TypeAlias = Callable[[str], str | None]
PACKAGE_WINDOW_S: Final = 300.0
"""What the package standardwebhooks allows."""


def verify(scheme: str, secrets: Sequence[str], header: Header, body: bytes, *, window_s: float) -> None:
    """Raises Problem (401) unless one of the secrets has signed the request within the window."""
    _SCHEMES[scheme](secrets, header, body, window_s)


def _verify_standard(secrets: Sequence[str], header: Header, body: bytes, window_s: float) -> None:
    from standardwebhooks import Webhook, WebhookVerificationError

    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    headers = {name: _required(header, name) for name in names}
    _check_window(headers["webhook-timestamp"], min(window_s, PACKAGE_WINDOW_S))
    for secret in secrets:
        try:
            Webhook(secret).verify(body, headers, json_parse=False)
        except (WebhookVerificationError, ValueError):
            # ValueError: a signature that is not base64, a body that is not UTF-8. A secret that is not base64 has signed nothing.
            continue
        return
    raise _wrong("webhook-signature")


def _verify_github(secrets: Sequence[str], header: Header, body: bytes, _window_s: float) -> None:
    name = "x-hub-signature-256"
    algorithm, _, signature = _required(header, name).partition("=")
    if algorithm != "sha256" or not _is_signed(secrets, body, [signature]):
        raise _wrong(name)


def _verify_stripe(secrets: Sequence[str], header: Header, body: bytes, window_s: float) -> None:
    name = "stripe-signature"
    pairs = [pair.strip().partition("=") for pair in _required(header, name).split(",")]
    times = [value for key, _, value in pairs if key == "t"]
    if len(times) != 1:
        raise _wrong(name)
    _check_window(times[0], window_s)
    # The time as it was sent: it is part of what was signed.
    signed = times[0].encode() + b"." + body
    if not _is_signed(secrets, signed, [value for key, _, value in pairs if key == "v1"]):
        raise _wrong(name)


def _verify_token(secrets: Sequence[str], header: Header, _body: bytes, _window_s: float) -> None:
    scheme, _, bearer = (header("authorization") or "").partition(" ")
    sent = bearer if scheme.lower() == "bearer" else header("x-gitlab-token") or header("x-webhook-token") or ""
    # Every secret is compared, whichever fits.
    matches = [hmac.compare_digest(secret.encode(), sent.strip().encode()) for secret in secrets]
    if not any(matches):
        raise _unauthorized(
            "the request has no valid secret; send it as Authorization: Bearer …, X-Gitlab-Token or X-Webhook-Token"
        )


_SCHEMES: Final[dict[str, Callable[[Sequence[str], Header, bytes, float], None]]] = {
    "standard-webhooks": _verify_standard,
    "github": _verify_github,
    "stripe": _verify_stripe,
    "token": _verify_token,
}


def _is_signed(secrets: Sequence[str], signed: bytes, signatures: Sequence[str]) -> bool:
    """Is one of the signatures, in hexadecimal, an HMAC-SHA256 by one of the secrets?"""
    digests = [hmac.new(secret.encode(), signed, sha256).digest() for secret in secrets]
    return any(hmac.compare_digest(digest, sent) for sent in map(_unhex, signatures[:10]) for digest in digests)


def _unhex(signature: str) -> bytes:
    try:
        return binascii.unhexlify(signature.strip())
    except ValueError:
        return b""


def _check_window(text: str, window_s: float) -> None:
    # Digits only: float() also reads "nan", which is never outside of anything.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise _unauthorized("the time of the signature is not a number of seconds since 1970")
    age_s = time.time() - int(text)
    if abs(age_s) > window_s:
        raise _unauthorized(
            f"the request was signed {abs(age_s):.0f} s {'ago' if age_s > 0 else 'in the future'}, {window_s:.0f} s are allowed; "
            "sign it anew, and check the clocks"
        )


def _required(header: Header, name: str) -> str:
    value = header(name)
    if not value:
        raise _unauthorized(f"the header {name} is missing; the hook accepts signed requests only")
    return value


def _wrong(name: str) -> Problem:
    return _unauthorized(f"the signature in {name} does not fit the body and any secret of the hook; check the secret")


def _unauthorized(detail: str) -> Problem:
    return Problem(401, detail, error="InvalidSignature")
