"""Signatures: does a webhook come from whoever has the secret? One class per scheme; other packages add schemes by entry points of the
group headrace.hook_signatures. Pure, but for the clock.

Several secrets may be valid at once, while one replaces another. Comparisons take constant time. A signed time that lies outside of the
window is rejected, so that a recorded request cannot be sent again later; GitHub signs no time, there the delivery id, which becomes
the event id, makes a repeated request the same event."""

from __future__ import annotations

import binascii
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Protocol, TypeAlias

from headrace.core import ExtensionPoint, InvalidSignature

HeaderLookup: TypeAlias = Callable[[str], str | None]
"""The value of a request's header by its name in lower case."""
PACKAGE_WINDOW_S: Final = 300.0
"""What the package standardwebhooks allows."""


class SignatureScheme(Protocol):
    """How the senders of a hook prove who they are. An object with a mapping and a function; both are used by many requests at once."""

    mapping: Mapping[str, str]
    """How a request becomes an event where the hook does not say: templates for `type` and, if the sender has them, `key` and `id`.
    An `id` makes a delivery that is repeated the same event."""

    def verify(self, secrets: Sequence[str], header: HeaderLookup, body: bytes, *, window_s: float) -> None:
        """Returns if one of the secrets has signed the request, and raises InvalidSignature otherwise.

        `secrets` has at least one, the newest first. A scheme that signs the time checks it with `check_window`. Compare with
        hmac.compare_digest. The error is sent to whoever sent the request: it must not show a secret, or the signature that would
        have been right. Runs on the server's event loop, so it must not wait for anything."""


class StandardWebhooks:
    """The signatures of standardwebhooks.com, by its package."""

    mapping: Mapping[str, str] = {"type": "{body:type}", "id": "{header:webhook-id}"}

    def verify(self, secrets: Sequence[str], header: HeaderLookup, body: bytes, *, window_s: float) -> None:
        from standardwebhooks import Webhook, WebhookVerificationError

        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        headers = {name: require_header(header, name) for name in names}
        check_window(headers["webhook-timestamp"], min(window_s, PACKAGE_WINDOW_S))
        for secret in secrets:
            try:
                Webhook(secret).verify(body, headers, json_parse=False)
            except (WebhookVerificationError, ValueError):
                # ValueError: a signature that is not base64, a body that is not UTF-8. A secret that is not base64 has signed nothing.
                continue
            return
        raise wrong_signature("webhook-signature")


class GitHub:
    """An HMAC of the body, without a time."""

    mapping: Mapping[str, str] = {
        "type": "github.{header:x-github-event}",
        "key": "{body:repository.full_name}",
        "id": "{header:x-github-delivery}",
    }

    def verify(self, secrets: Sequence[str], header: HeaderLookup, body: bytes, *, window_s: float) -> None:
        name = "x-hub-signature-256"
        algorithm, _, signature = require_header(header, name).partition("=")
        if algorithm != "sha256" or not _is_signed(secrets, body, [signature]):
            raise wrong_signature(name)


class Stripe:
    """An HMAC of the time and the body; several signatures may be in the header."""

    mapping: Mapping[str, str] = {"type": "stripe.{body:type}", "key": "{body:data.object.id}", "id": "{body:id}"}

    def verify(self, secrets: Sequence[str], header: HeaderLookup, body: bytes, *, window_s: float) -> None:
        name = "stripe-signature"
        pairs = [pair.strip().partition("=") for pair in require_header(header, name).split(",")]
        times = [value for key, _, value in pairs if key == "t"]
        if len(times) != 1:
            raise wrong_signature(name)
        check_window(times[0], window_s)
        # The time as it was sent: it is part of what was signed.
        signed = times[0].encode() + b"." + body
        if not _is_signed(secrets, signed, [value for key, _, value in pairs if key == "v1"]):
            raise wrong_signature(name)


class Token:
    """The secret itself, in a header."""

    mapping: Mapping[str, str] = {"type": "{hook}.received"}

    def verify(self, secrets: Sequence[str], header: HeaderLookup, body: bytes, *, window_s: float) -> None:
        scheme, _, bearer = (header("authorization") or "").partition(" ")
        sent = bearer if scheme.lower() == "bearer" else header("x-gitlab-token") or header("x-webhook-token") or ""
        # Every secret is compared, whichever fits.
        matches = [hmac.compare_digest(secret.encode(), sent.strip().encode()) for secret in secrets]
        if not any(matches):
            raise InvalidSignature(
                "the request has no valid secret; send it as Authorization: Bearer …, X-Gitlab-Token or X-Webhook-Token"
            )


SCHEMES: Final[ExtensionPoint[SignatureScheme]] = ExtensionPoint(
    group="headrace.hook_signatures",
    noun="signature scheme",
    contract=SignatureScheme,
    own={
        "standard-webhooks": f"{__name__}:STANDARD_WEBHOOKS",
        "github": f"{__name__}:GITHUB",
        "stripe": f"{__name__}:STRIPE",
        "token": f"{__name__}:TOKEN",
    },
)
STANDARD_WEBHOOKS, GITHUB, STRIPE, TOKEN = StandardWebhooks(), GitHub(), Stripe(), Token()


def check_window(text: str, window_s: float) -> None:
    """Raises InvalidSignature unless a signed time, in seconds since 1970, is at most so far from now, in either direction."""
    # Digits only: float() also reads "nan", which is never outside of anything.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InvalidSignature("the time of the signature is not a number of seconds since 1970")
    age_s = time.time() - int(text)
    if abs(age_s) > window_s:
        raise InvalidSignature(
            f"the request was signed {abs(age_s):.0f} s {'ago' if age_s > 0 else 'in the future'}, {window_s:.0f} s are allowed; "
            "sign it anew, and check the clocks"
        )


def require_header(header: HeaderLookup, name: str) -> str:
    """The value of a header. Raises InvalidSignature if the request does not have it."""
    value = header(name)
    if not value:
        raise InvalidSignature(f"the header {name} is missing; the hook accepts signed requests only")
    return value


def wrong_signature(name: str) -> InvalidSignature:
    """The error for a signature that no secret has made; `name` is its header."""
    return InvalidSignature(f"the signature in {name} does not match the body and any secret of the hook; check the secret")


def _is_signed(secrets: Sequence[str], signed: bytes, signatures: Sequence[str]) -> bool:
    """Is one of the signatures, in hexadecimal, an HMAC-SHA256 by one of the secrets?"""
    digests = [hmac.new(secret.encode(), signed, sha256).digest() for secret in secrets]
    return any(hmac.compare_digest(digest, sent) for sent in map(_unhex, signatures[:10]) for digest in digests)


def _unhex(signature: str) -> bytes:
    try:
        return binascii.unhexlify(signature.strip())
    except ValueError:
        return b""
