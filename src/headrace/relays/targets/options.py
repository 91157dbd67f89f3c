"""Options of targets: a table per kind says which there are, and one function checks what a relay has against it. Options refer to
secrets by `env:NAME` or `file:name`; the node that runs the relay reads them.

Promises: a message for each mistake, with the name of the option; no message repeats a value, which may be a secret in the wrong place.
The value of a secret is in no table, message, log or repr. Whoever may write relays cannot read what else the node can, nor what belongs
to another namespace: the namespace is part of the variable's and of the file's name, as for hooks."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from headrace.core import JSON, DeliveryError, Invalid, InvalidRelay, is_reference, parse_reference, parse_template, read_secret
from headrace.relays.targets.target import Message

OptionType = Literal["text", "texts", "fields", "template", "integer", "seconds", "flag", "addresses", "secret"]

_WORDS: Final[Mapping[OptionType, str]] = {
    "text": "a text",
    "texts": "a list of texts",
    "fields": "an object of texts",
    "template": "a text",
    "integer": "an integer",
    "seconds": "a number of seconds",
    "flag": "true or false",
    "addresses": "host:port or a list of them",
    "secret": "a reference to a secret: env:NAME or file:name",
}
# It has no user, password or path: credentials are options of their own.
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")

PARTITION_FIELDS: Final = ("relay", "topic", "partition")
"""What a template may contain that is the same for all messages of a partition."""
MESSAGE_FIELDS: Final = (*PARTITION_FIELDS, "type", "key")


@dataclass(frozen=True)
class Option:
    """One option of a target."""

    type: OptionType
    default: JSON = None
    required: bool = False
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    fields: tuple[str, ...] = PARTITION_FIELDS
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
    for name in (name for name in options if name not in table):
        near = get_close_matches(name, table, 1)
        suggestion = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(table))}"
        mistakes.append(f"option {name!r} is unknown; {suggestion}")
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
        try:
            parse_template(value, option.fields)
        except Invalid as error:
            return str(error)
    return None


def _has_type(type: OptionType, value: JSON) -> bool:
    if type == "flag":
        return isinstance(value, bool)
    if type == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if type == "seconds":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if type == "texts":
        return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)
    if type == "fields":
        return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())
    if type == "addresses":
        listed = value if isinstance(value, list) else [value]
        return bool(listed) and all(isinstance(address, str) and _ADDRESS.fullmatch(address) for address in listed)
    if type == "secret":
        return is_reference(value)
    return isinstance(value, str) and value != ""


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

    def texts(self, name: str) -> list[str]:
        value = self._values[name]
        return [str(text) for text in value] if isinstance(value, list) else [str(value)]

    def fields(self, name: str) -> dict[str, str]:
        value = self._values[name]
        return {field: str(text) for field, text in value.items()} if isinstance(value, Mapping) else {}


def fill_template(template: str, message: Message) -> str:
    """The name that a template gives for a message."""
    values = {
        "relay": message.relay,
        "topic": message.topic,
        "partition": str(message.partition),
        "type": message.event_type,
        "key": message.key,
    }
    name = parse_template(template, MESSAGE_FIELDS).fill(lambda field: values[field.root] or field.default or "")
    assert name is not None
    return name


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


_secret_name: Final = re.compile(r"(?i)secret|password|passwd|token|credential|apikey|api_key|authorization")
_password_in_address: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@|\bpassword\s*=", re.IGNORECASE)


class Secrets(dict[str, str]):
    """The values of secrets by option; those of a list by `option.0`, `option.1` and so on."""

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self)})"


def check_references(options: Mapping[str, JSON]) -> list[str]:
    """What is wrong with the options as far as secrets are concerned: one that is there in clear text, or cannot be referred to."""
    problems: list[str] = []
    for option, text in _texts(options):
        if is_reference(text):
            try:
                parse_reference(text)
            except Invalid as error:
                problems.append(f"option {option!r}: {error}")
        elif _secret_name.search(option) or _password_in_address.search(text):
            problems.append(f"option {option!r} has a secret in clear text; refer to it by env:NAME or file:name")
    return problems


def resolve_secrets(options: Mapping[str, JSON], namespace: str, environ: Mapping[str, str] = os.environ) -> Secrets:
    """The secrets of a namespace that options refer to. Raises InvalidRelay for one that the node does not have."""
    secrets = Secrets()
    for option, text in _texts(options):
        if is_reference(text):
            try:
                secrets[option] = read_secret(text, namespace, environ)
            except Invalid as error:
                raise InvalidRelay(f"{option}: {error}") from None
    return secrets


def _texts(options: Mapping[str, JSON]) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []
    for option, value in options.items():
        if isinstance(value, str):
            texts.append((option, value))
        elif isinstance(value, Sequence):
            texts += [(f"{option}.{index}", part) for index, part in enumerate(value) if isinstance(part, str)]
        elif isinstance(value, Mapping):
            texts += [(f"{option}.{name}", part) for name, part in value.items() if isinstance(part, str)]
    return texts
