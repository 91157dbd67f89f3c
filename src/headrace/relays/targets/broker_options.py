"""Options of targets: a table per kind says which there are, and one function checks what a relay has against it.

Promises: a message for each mistake, with the name of the option; no message repeats a value, which may be a secret in the wrong place."""

from __future__ import annotations

import re
import ssl
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from headrace.core import JSON, DeliveryError
from headrace.relays.message import Message
from headrace.relays.targets.options import unknown_options

__all__ = ["RABBITMQ_OPTIONS", "TLS_OPTIONS", "Option", "Options", "fill_template", "find_mistakes", "tls_context"]

OptionType = Literal["text", "template", "integer", "seconds", "flag", "addresses", "secret"]

_WORDS: Final[Mapping[OptionType, str]] = {
    "text": "a text",
    "template": "a text",
    "integer": "an integer",
    "seconds": "a number of seconds",
    "flag": "true or false",
    "addresses": "host:port or a list of them",
    "secret": "a reference to a secret: env:NAME or file:name",
}
# Without user, password and path: credentials are options of their own.
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")
_REFERENCE: Final = re.compile(r"(env|file):.+", re.DOTALL)
PLACE_FIELDS: Final = ("relay", "topic", "partition")
"""What a template may contain that is the same for all messages of a partition."""


@dataclass(frozen=True)
class Option:
    """One option of a target."""

    type: OptionType
    default: JSON = None
    required: bool = False
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    fields: tuple[str, ...] = PLACE_FIELDS
    """What a template may have in braces."""


TLS_OPTIONS: Final[Mapping[str, Option]] = {
    "tls": Option("flag", default=False),
    "tls_ca": Option("secret"),
    "tls_certificate": Option("secret"),
    "tls_key": Option("secret"),
    "tls_key_password": Option("secret"),
}
"""The options of TLS, the same for every broker. PEM texts by reference, not paths: whoever writes relays must not use the node's own
certificates and keys."""


RABBITMQ_OPTIONS: Final[Mapping[str, Option]] = {
    "host": Option("text", required=True),
    "port": Option("integer", at_least=1, at_most=65535),
    "virtual_host": Option("text", default="/"),
    "user": Option("text", default="guest"),
    "password": Option("secret", required=True),
    "timeout_s": Option("seconds", default=30, at_least=0.1, at_most=40),
    **TLS_OPTIONS,
}
"""The options of a RabbitMQ, for queues and for streams."""


def find_mistakes(table: Mapping[str, Option], options: Mapping[str, JSON]) -> list[str]:
    """A message for each mistake in the options of a target."""
    mistakes = [f"option {name!r} is missing" for name, option in table.items() if option.required and options.get(name) is None]
    mistakes += unknown_options(options, table)
    for name, value in options.items():
        if name in table and value is not None and (mistake := _mistake(table[name], value)):
            mistakes.append(f"option {name!r} {mistake}")
    tls_names = [name for name in options if name.startswith("tls_") and name in table and options[name] is not None]
    if tls_names and options.get("tls") is not True:
        mistakes.append(f"option {tls_names[0]!r} needs tls: true")
    if (options.get("tls_key") is None) != (options.get("tls_certificate") is None):
        mistakes.append("the options tls_certificate and tls_key are used together")
    return mistakes


def _mistake(option: Option, value: JSON) -> str | None:
    if not _has_type(option.type, value):
        return f"must be {_WORDS[option.type]}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if option.at_least is not None and value < option.at_least:
            return f"must be at least {option.at_least:g}, it is {value}"
        if option.at_most is not None and value > option.at_most:
            return f"must be at most {option.at_most:g}, it is {value}"
    if option.choices and value not in option.choices:
        return f"must be one of {', '.join(option.choices)}"
    if option.type == "template" and isinstance(value, str):
        return _template_mistake(option, value)
    return None


def _has_type(type: OptionType, value: JSON) -> bool:
    if type == "flag":
        return isinstance(value, bool)
    if type == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if type == "seconds":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if type == "addresses":
        listed = value if isinstance(value, list) else [value]
        return bool(listed) and all(isinstance(address, str) and _ADDRESS.fullmatch(address) for address in listed)
    if type == "secret":
        return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None
    return isinstance(value, str) and value != ""


def _template_mistake(option: Option, value: str) -> str | None:
    known = ", ".join(f"{{{field}}}" for field in option.fields)
    try:
        parts = list(string.Formatter().parse(value))
    except ValueError:
        return f"has a brace without its partner; it may contain {known}"
    for _, field, format_spec, conversion in parts:
        if field is not None and (field not in option.fields or format_spec or conversion):
            return f"may contain {known} and no other braces"
    return None


class Options:
    """The options of a relay, filled with defaults. Has no secrets."""

    def __init__(self, table: Mapping[str, Option], options: Mapping[str, JSON]) -> None:
        self._values = {
            name: options[name] if options.get(name) is not None else option.default for name, option in table.items()
        }

    def text(self, name: str) -> str:
        return str(self._values[name])

    def optional_text(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else str(value)

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self._values[name] is None else self.integer(name)

    def seconds(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, (int, float))
        return float(value)

    def flag(self, name: str) -> bool:
        return self._values[name] is True

    def addresses(self, name: str) -> list[str]:
        value = self._values[name]
        return [str(address) for address in value] if isinstance(value, list) else [str(value)]


def fill_template(template: str, message: Message) -> str:
    """The name that a template gives for a message."""
    return template.format(
        relay=message.relay, topic=message.topic, partition=message.partition, type=message.event_type, key=message.key or ""
    )


def tls_context(options: Options, secrets: Mapping[str, str]) -> ssl.SSLContext | None:
    """The context of a connection by TLS, which checks the server's certificate and name; none without the option `tls`."""
    if not options.flag("tls"):
        return None
    try:
        context = ssl.create_default_context(cadata=secrets.get("tls_ca"))
        if "tls_certificate" in secrets:
            _load_certificate(context, secrets)
    except (OSError, ValueError) as error:
        raise DeliveryError(
            f"TLS cannot be set up: {type(error).__name__}; check that tls_ca, tls_certificate and tls_key refer to PEM texts"
        ) from None
    return context


def _load_certificate(context: ssl.SSLContext, secrets: Mapping[str, str]) -> None:
    # The library reads files only. Its folder is readable by our user alone, and gone a moment later.
    with TemporaryDirectory(prefix="headrace-tls-") as folder:
        path = Path(folder) / "chain.pem"
        path.touch(mode=0o600)
        path.write_text(f"{secrets['tls_certificate']}\n{secrets['tls_key']}\n", encoding="utf-8")
        context.load_cert_chain(path, password=secrets.get("tls_key_password", ""))
