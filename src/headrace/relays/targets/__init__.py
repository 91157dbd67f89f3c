"""Targets: the systems that relays deliver to, one module per kind.

Promises: a kind's module and its packages are imported when a relay of that kind is checked or opened, and not before."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Final, Protocol, cast

from headrace.core import JSON, Invalid, PackageMissing
from headrace.relays.targets.target import Target

__all__ = ["TARGET_KINDS", "check_options", "open_target"]

_MODULES: Final[Mapping[str, str]] = {
    "kafka": "headrace.relays.targets.kafka",
    "nats": "headrace.relays.targets.nats",
    "postgres": "headrace.relays.targets.postgres",
    "rabbitmq": "headrace.relays.targets.rabbitmq",
    "rabbitmq-stream": "headrace.relays.targets.rabbitmq_stream",
    "redis": "headrace.relays.targets.redis",
    "webhook": "headrace.relays.targets.webhook",
}
"""The module of each kind. It has `open_target` and `check_options` with the signatures below, without the kind."""

_EXTRAS: Final[Mapping[str, str]] = {"rabbitmq-stream": "rabbitmq"}
"""The extra with the packages of a kind, where it is not named after the kind."""

TARGET_KINDS: Final = tuple(_MODULES)


class TargetModule(Protocol):
    """What the module of a kind has."""

    def open_target(self, relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> Target: ...

    def check_options(self, options: Mapping[str, JSON]) -> list[str]: ...


def open_target(kind: str, relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> Target:
    """The target of a relay, not connected yet. `secrets` has the values of the options that refer to secrets, by option."""
    return _module(kind).open_target(relay_name, options, secrets)


def check_options(kind: str, options: Mapping[str, JSON]) -> list[str]:
    """What is wrong with the options of a target, a message for each mistake; connects to nothing. Raises Invalid for an unknown kind."""
    return _module(kind).check_options(options)


def _module(kind: str) -> TargetModule:
    if kind not in _MODULES:
        near = get_close_matches(kind, TARGET_KINDS, 1)
        suggestion = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(TARGET_KINDS)}"
        raise Invalid(f"there is no target {kind!r}; {suggestion}")
    try:
        return cast(TargetModule, import_module(_MODULES[kind]))
    except ModuleNotFoundError as error:
        if error.name == _MODULES[kind]:
            raise Invalid(f"this release of headrace has no target {kind!r} yet") from None
        raise PackageMissing(
            f"the target {kind!r} needs the package {error.name}; install: pip install 'headrace[{_EXTRAS.get(kind, kind)}]'"
        ) from None
