"""Webhook: one POST per event, signed by Standard Webhooks.

Promises: at least once, with the event's id as the stable `webhook-id`; events of one key in order, one in flight per key; a pause
that the receiver asks for is kept; 410 ends the relay. A redirect is not followed, a private address is not reached, and a response
is read to a limit and within a time, whatever the receiver does. The name of the receiver is resolved by us, checked, and the connection
goes to that very address: no request reaches a private, loopback or link-local address unless the operator of the node allows its network,
whatever the definition of the relay says, whatever a name resolves to, and whatever it resolves to a moment later."""

from __future__ import annotations

import asyncio
import binascii
import os
import re
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

import httpx2
from standardwebhooks import Webhook

from headrace.core import JSON, DeliveryError, Invalid, InvalidRelay, TargetGone, TargetRefused, is_reference, safe_line
from headrace.relays.targets.options import Option, Options, find_mistakes
from headrace.relays.targets.target import Message

NETWORKS_VARIABLE: Final = "HEADRACE_RELAY_NETWORKS"
RESOLVE_S: Final = 30.0
"""How long an answer of the resolver is used."""
# All that is assigned to networks of the internet. Elsewhere are addresses for sites, overlay networks and translators.
_INTERNET: Final = IPv6Network("2000::/3")
# Addresses that carry an IPv4 address inside: a gateway would translate them. And examples.
_NOT_PUBLIC: Final = (IPv6Network("2002::/16"), IPv6Network("2001::/32"), IPv6Network("3fff::/20"))
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""These come before the IPv4 address in the lower half of an address."""
_RELAYS_OF_6TO4: Final = IPv4Network("192.88.99.0/24")
BODY_BYTES_MAX: Final = 2_097_152
RESPONSE_BYTES_MAX: Final = 65_536
"""A longer response is not read to its end; its connection is closed."""
RETRIED: Final = frozenset({408, 409, 425, 429})
"""Answers of the 4xx kind that a later attempt may change."""
OPTIONS: Final[Mapping[str, Option]] = {
    "url": Option("text", required=True),
    "secret": Option("text"),
    "secrets": Option("texts"),
    "headers": Option("fields"),
    "timeout_s": Option("seconds", default=10, at_least=0.1, at_most=30),
    "in_flight": Option("integer", default=32, at_least=1, at_most=256),
}
_SCHEMES: Final = ("http", "https")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS: Final = re.compile(r"(?i)host|content-length|transfer-encoding|connection|upgrade|webhook-.*")
DELIVERY_S: Final = 40.0
"""The last request of a delivery ends within this time."""


Address: TypeAlias = IPv4Address | IPv6Address


def check_options(options: Mapping[str, JSON]) -> list[str]:
    if problems := find_mistakes(OPTIONS, options):
        return problems
    values = Options(OPTIONS, options)
    url, headers = values.text("url"), values.fields("headers")
    if not is_reference(url):
        problems += _url_problems(url)
    if "secret" in options and "secrets" in options:
        problems.append("secret and secrets are both there; give one of them")
    if not all(map(_is_header, headers.values())):
        problems.append("headers is not an object of texts in printable ASCII")
    elif refused := [name for name in headers if not _HEADER_NAME.fullmatch(name) or _OWN_HEADERS.fullmatch(name)]:
        problems.append(f"headers: {', '.join(map(repr, refused))} cannot be set")
    return problems


def _url_problems(text: str) -> list[str]:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        return [f"url is not an address: {error}"]
    if url.scheme not in _SCHEMES or not url.host:
        return ["url is not an http or https address with a host"]
    if url.userinfo:
        return ["url has a user name; put credentials into headers, as a reference to a secret"]
    return []


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable()


def open_target(relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> WebhookTarget:
    """The receiver of a relay. Raises InvalidRelay for secrets that cannot sign."""
    values = Options(OPTIONS, options)
    address = secrets.get("url", values.text("url"))
    # Checked again: what a secret holds is known only now.
    if problems := _url_problems(address):
        raise InvalidRelay(f"relay {relay_name}: {problems[0]}")
    own_headers = {name: secrets.get(f"headers.{name}", value) for name, value in values.fields("headers").items()}
    if not all(map(_is_header, own_headers.values())):
        raise InvalidRelay(f"relay {relay_name}: a header has a value that is not printable ASCII")
    keys = [value for option, value in secrets.items() if option == "secret" or option.startswith("secrets.")]
    return WebhookTarget(
        url=httpx2.URL(address),
        signers=_signers(relay_name, keys),
        headers=own_headers,
        timeout_s=values.seconds("timeout_s"),
        in_flight=values.integer("in_flight"),
    )


def _signers(relay_name: str, keys: Iterable[str]) -> list[Webhook]:
    try:
        return [Webhook(key) for key in keys]
    except (binascii.Error, ValueError, RuntimeError):
        message = f"relay {relay_name}: a secret is not a key of Standard Webhooks; it is whsec_ and 24 to 64 bytes in base64"
        raise InvalidRelay(message) from None


@dataclass
class Outcome:
    """What became of the messages of one delivery."""

    ends_at: float
    """Nothing is sent after this time of the monotonic clock."""
    delivered: list[int] = field(default_factory=list)
    errors: dict[int, DeliveryError] = field(default_factory=dict)
    """The errors by position."""

    @property
    def is_halted(self) -> bool:
        """The receiver wants no more now, or is down: nothing else is sent."""
        return any(not isinstance(error, TargetRefused) for error in self.errors.values())

    def error(self) -> DeliveryError:
        """The error of the delivery as a whole: that the receiver is gone, else that of the first message."""
        for error in self.errors.values():
            if isinstance(error, TargetGone):
                return error
        first = self.errors[min(self.errors)]
        first.delivered = frozenset(self.delivered)
        return first


class WebhookTarget:
    """POSTs messages to one address."""

    def __init__(
        self,
        *,
        url: httpx2.URL,
        signers: Sequence[Webhook],
        headers: Mapping[str, str],
        timeout_s: float,
        in_flight: int,
    ) -> None:
        self._url = url
        self._signers = signers
        self._headers = headers
        self._timeout_s = timeout_s
        self._in_flight = in_flight
        self._resolver = Resolver(url.host, url.port or (443 if url.scheme == "https" else 80))
        self._transport: httpx2.AsyncHTTPTransport | None = None

    async def open(self) -> None:
        limits = httpx2.Limits(max_connections=self._in_flight, max_keepalive_connections=self._in_flight, keepalive_expiry=30)
        # The transport and not a client: a client keeps cookies, follows redirects, decodes bodies and takes proxies from variables.
        self._transport = httpx2.AsyncHTTPTransport(limits=limits)
        await self._resolver.address()

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def deliver(self, messages: Sequence[Message]) -> None:
        pinned = self._url.copy_with(host=str(await self._resolver.address()))
        chains: dict[str, deque[Message]] = {}
        for message in messages:
            # An event without a key waits for no other.
            chains.setdefault(f"key {message.key}" if message.key is not None else f"id {message.event_id}", deque()).append(
                message
            )
        waiting = deque(chains.values())
        outcome = Outcome(ends_at=time.monotonic() + DELIVERY_S - self._timeout_s)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._in_flight, len(waiting))):
                group.create_task(self._deliver_chains(waiting, pinned, outcome))
        if outcome.errors:
            raise outcome.error()

    async def _deliver_chains(self, waiting: deque[deque[Message]], url: httpx2.URL, outcome: Outcome) -> None:
        while waiting and not outcome.is_halted:
            for message in waiting.popleft():
                if outcome.is_halted:
                    return
                if time.monotonic() > outcome.ends_at:
                    outcome.errors[message.position] = DeliveryError("the receiver is too slow for the batch; lower batch")
                    return
                try:
                    await self._post(message, url)
                except DeliveryError as error:
                    # The later events of the key must not overtake it.
                    outcome.errors[message.position] = error
                    break
                outcome.delivered.append(message.position)

    async def _post(self, message: Message, url: httpx2.URL) -> None:
        if len(message.body) > BODY_BYTES_MAX:
            raise TargetRefused(f"the body has {len(message.body)} bytes, at most {BODY_BYTES_MAX} are sent; use a mapping")
        assert self._transport is not None, "open it first"
        request = httpx2.Request(
            "POST",
            url,
            headers=self._request_headers(message),
            content=message.body,
            extensions={"sni_hostname": self._url.host, "timeout": httpx2.Timeout(self._timeout_s).as_dict()},
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._transport.handle_async_request(request)
                try:
                    text = await _read_start(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise DeliveryError(f"the receiver has not answered within {self._timeout_s:g} s") from None
        except httpx2.TransportError as error:
            raise DeliveryError(f"{type(error).__name__}: {safe_line(str(error))[:200]}") from None
        _check_status(response, text)

    def _request_headers(self, message: Message) -> list[tuple[str, str]]:
        headers = {name.lower(): value for name, value in message.headers.items()}
        headers |= {
            "host": self._url.netloc.decode("ascii"),
            "content-type": message.content_type,
            "content-length": str(len(message.body)),
            "user-agent": "headrace",
            "accept": "*/*",
            **{name.lower(): value for name, value in self._headers.items()},
            "webhook-id": str(message.event_id),
        }
        now = datetime.now(UTC)
        headers["webhook-timestamp"] = str(int(now.timestamp()))
        if self._signers:
            body = message.body.decode()
            signatures = [signer.sign(str(message.event_id), now, body) for signer in self._signers]
            headers["webhook-signature"] = " ".join(signatures)
        return list(headers.items())


async def _read_start(response: httpx2.Response) -> bytes:
    """The first bytes of a response. A short one is read to its end, so that its connection can be used again."""
    start = b""
    size = 0
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for chunk in response.stream:
        start = start or chunk[:200]
        size += len(chunk)
        if size > RESPONSE_BYTES_MAX:
            break
    return start


def _check_status(response: httpx2.Response, start: bytes) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    answer = safe_line(start.decode("utf-8", "replace")).strip()
    text = f"the receiver answered {status}{f': {answer}' if answer else ''}"
    if status == 410:
        raise TargetGone(f"{text}; it wants no more events")
    if 300 <= status < 400:
        raise DeliveryError(f"the receiver answered {status}, a redirect, which is not followed; correct the url")
    if 400 <= status < 500 and status not in RETRIED:
        raise TargetRefused(text)
    raise DeliveryError(text, retry_after_s=_retry_after_s(response.headers.get("retry-after")))


def _retry_after_s(value: str | None) -> float | None:
    """The pause that a header asks for, in seconds or by a date; None if it says nothing sensible."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max((at - datetime.now(UTC)).total_seconds(), 0.0)


def is_public(address: Address) -> bool:
    """True for an address that anybody on the internet may reach."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
        if is_isatap or address not in _INTERNET or any(address in network for network in _NOT_PUBLIC):
            return False
    return address.is_global and not address.is_multicast and address not in _RELAYS_OF_6TO4


def allowed_networks(environ: Mapping[str, str] = os.environ) -> list[IPv4Network | IPv6Network]:
    """The private networks that the operator of this node allows. Raises Invalid for what is no network."""
    words = environ.get(NETWORKS_VARIABLE, "").replace(",", " ").split()
    try:
        return [ip_network(word) for word in words]
    except ValueError as error:
        raise Invalid(f"{NETWORKS_VARIABLE}: {error}; write networks such as 10.1.0.0/16, separated by spaces") from None


def is_allowed(address: Address) -> bool:
    """True for a public address, and for one in a network that the operator allows."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return is_public(address) or any(address in network for network in allowed_networks())


def literal_address(host: str) -> Address | None:
    """The address that a host is by itself, None for a name. In every form that a resolver takes: 127.1, 0x7f000001, 2130706433."""
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


@dataclass
class Resolver:
    """The address of one host."""

    host: str
    port: int
    _address: Address | None = field(default=None, init=False)
    _resolved_at: float = field(default=0.0, init=False)

    async def address(self) -> Address:
        """The address to connect to. Raises DeliveryError if there is none, or if none of them is allowed."""
        if self._address is None or time.monotonic() - self._resolved_at > RESOLVE_S:
            self._address = await self._resolve()
            self._resolved_at = time.monotonic()
        return self._address

    async def _resolve(self) -> Address:
        literal = literal_address(self.host)
        addresses = [literal] if literal is not None else await self._look_up()
        for address in addresses:
            if is_allowed(address):
                return address
        raise DeliveryError(
            f"{self.host} has only private addresses ({', '.join(map(str, addresses))}), which are refused; "
            f"the operator of the node allows a network by {NETWORKS_VARIABLE}"
        )

    async def _look_up(self) -> list[Address]:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise DeliveryError(f"{self.host} cannot be resolved: {error}") from None
        return [ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
