"""Hooks for Slack: the header X-Slack-Signature is an HMAC of the time and the body, by the signing secret of the app."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256

from headrace.web.http import HeaderLookup, check_window, require_header, wrong_signature


class Slack:
    """The scheme v0 of Slack's signed requests."""

    mapping: Mapping[str, str] = {"type": "slack.{body:event.type}", "key": "{body:event.channel}", "id": "{body:event_id}"}

    def verify(self, secrets: Sequence[str], header: HeaderLookup, body: bytes, *, window_s: float) -> None:
        """Raises InvalidSignature unless one of the secrets has signed the request within the window."""
        sent = require_header(header, "x-slack-signature")
        time = require_header(header, "x-slack-request-timestamp")
        check_window(time, window_s)
        signed = b"v0:" + time.encode() + b":" + body
        signatures = ["v0=" + hmac.new(secret.encode(), signed, sha256).hexdigest() for secret in secrets]
        # Every signature is compared, whichever fits.
        matches = [hmac.compare_digest(signature.encode(), sent.encode()) for signature in signatures]
        if not any(matches):
            raise wrong_signature("x-slack-signature")


SLACK = Slack()
