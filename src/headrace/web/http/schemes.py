"""Schemes: does a webhook come from whoever has the secret, and which event does it become? One class per scheme; other packages add
schemes by entry points of the group headrace.hook_signatures. Pure, but for the clock.

Several secrets may be valid at once, while one replaces another. Comparisons take constant time. A signed time that lies outside of the
window is rejected, so that a recorded request cannot be sent again later; GitHub signs no time, there the delivery id, which becomes
the event id, makes a repeated request the same event.

A mapping says how a webhook becomes an event. It has templates (see core/templates.py) for `type`, `key`, `id` and `payload`, with these placeholders:

    {header:x-github-event}          a header of the request
    {query:source}                   a parameter of its URL
    {body:repository.full_name}      a field of its JSON; numbers count into arrays
    {hook}                           the name of the hook
    {body:action|none}               `none` if the request does not have it

The payload is one placeholder: {body}, which is all of it, or {body:data.object}. A key or id whose field is missing is left out;
a type needs all of its fields."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final, Protocol, TypeAlias

import msgspec

from headrace.core import (
    JSON,
    ExtensionPoint,
    Invalid,
    InvalidHook,
    InvalidSignature,
    PackageMissing,
    Placeholder,
    RawJSON,
    array_index,
    decode,
    follow_path,
    parse_path,
    parse_template,
)

HeaderLookup: TypeAlias = Callable[[str], str | None]
"""The value of a request's header by its name in lower case."""
PACKAGE_WINDOW_S: Final = 300.0
"""What the package standardwebhooks allows."""
MEMBERS: Final = ("type", "key", "id", "payload")
PLACEHOLDERS: Final = ("header:name", "query:name", "body:path", "hook")
PAYLOAD_PLACEHOLDERS: Final = ("body:path", "body")


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
    digests = [hmac.new(secret.encode(), signed, sha256).hexdigest().encode() for secret in secrets]
    sent = [signature.strip().lower().encode() for signature in signatures[:10]]
    return any(hmac.compare_digest(digest, own) for own in sent for digest in digests)


@dataclass(frozen=True)
class Webhook:
    """What a mapping reads of a request."""

    hook: str
    header: Callable[[str], str | None]
    query: Callable[[str], str | None]
    body: bytes
    """JSON."""


@dataclass(frozen=True)
class EventMapping:
    type: str
    key: str | None = None
    id: str | None = None
    payload: str = "{body}"

    def apply(self, webhook: Webhook) -> tuple[str, str | None, str | None, RawJSON]:
        """Type, key, id and payload of the event. Raises InvalidHook if the request lacks what the mapping needs, InvalidPayload if its body is not JSON."""
        tree = decode(webhook.body)

        def fill(template: str) -> str | None:
            return parse_template(template, PLACEHOLDERS).fill(lambda placeholder: _value(placeholder, webhook, tree)) or None

        type = fill(self.type)
        if type is None:
            raise InvalidHook(
                f"the request has not all fields of the type {self.type}; change the mapping, or give defaults as in {{…|none}}"
            )
        return type, fill(self.key) if self.key else None, fill(self.id) if self.id else None, self._payload(webhook)

    def _payload(self, webhook: Webhook) -> RawJSON:
        (body,) = parse_template(self.payload, PAYLOAD_PLACEHOLDERS).placeholders
        if body.argument is None:
            # Keep it as it was written, with every digit.
            return msgspec.Raw(webhook.body)
        raw = _raw_value(webhook.body, parse_path(body.argument))
        if raw is None:
            raise InvalidHook(f"the request has no field for the payload {self.payload}; change the mapping")
        return raw


def parse_mapping(scheme: str, mapping: Mapping[str, str]) -> EventMapping:
    """The mapping of a hook, completed by that of its scheme. Raises InvalidHook, and PackageMissing for a scheme that
    is not here."""
    if unknown := sorted(set(mapping) - set(MEMBERS)):
        raise InvalidHook(f"the mapping has an unknown member {unknown[0]!r}; its members are {', '.join(MEMBERS)}")
    for name, text in mapping.items():
        if not isinstance(text, str) or not text or len(text) > 1000:
            raise InvalidHook(f"the mapping's {name} is not a text of 1 to 1000 characters")
        try:
            template = parse_template(text, PAYLOAD_PLACEHOLDERS if name == "payload" else PLACEHOLDERS)
        except Invalid as error:
            raise InvalidHook(f"the mapping's {name} {text!r}: {error}") from None
        parts = template.placeholders
        if name == "payload" and (len(template.parts) != 1 or len(parts) != 1 or parts[0].default is not None):
            raise InvalidHook("the mapping's payload is not one placeholder; write {body} or {body:path}")
    return EventMapping(**{**SCHEMES.load(scheme).mapping, **mapping})


def describe_mapping(scheme: str, mapping: Mapping[str, str]) -> Mapping[str, str | None]:
    """The templates of a hook for people: completed by those of its scheme if that is here, otherwise only the hook's own."""
    try:
        return asdict(parse_mapping(scheme, mapping))
    except PackageMissing:
        return {**mapping}


def _value(placeholder: Placeholder, webhook: Webhook, tree: JSON) -> str | None:
    """What a request has for a placeholder; None for nothing, and for an empty text."""
    if placeholder.root == "hook":
        return webhook.hook
    assert placeholder.argument is not None, "parse_template has checked it"
    if placeholder.root == "header":
        return webhook.header(placeholder.argument.lower()) or None
    if placeholder.root == "query":
        return webhook.query(placeholder.argument) or None
    value = follow_path(tree, parse_path(placeholder.argument))
    if isinstance(value, bool):
        return "true" if value else "false"
    # Objects, arrays and null name nothing.
    return str(value) or None if isinstance(value, str | int | float) else None


def _raw_value(body: bytes, steps: Sequence[str | int]) -> RawJSON | None:
    """The text of a value, as it was written."""
    raw = msgspec.Raw(body)
    try:
        for step in steps:
            if bytes(raw).lstrip()[:1] == b"[":
                index = array_index(step)
                raw = msgspec.json.decode(raw, type=list[msgspec.Raw])[-1 if index is None else index]
            else:
                raw = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[str(step)]
    except (KeyError, IndexError, ValueError):
        return None
    return raw
