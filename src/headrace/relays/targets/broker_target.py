"""What the targets of all brokers share: options, secrets, the time limit, and how they are named in messages."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping

from headrace.relays.targets.broker_options import Options

__all__ = ["BrokerTarget"]


class BrokerTarget(ABC):
    """A broker, for one relay on one node."""

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        self._relay = relay
        self._options = options
        self._secrets = secrets
        self._timeout_s = options.seconds("timeout_s")
        self._opening = asyncio.Lock()
        """Held while it connects: deliveries of several partitions open it once."""

    @property
    @abstractmethod
    def _place(self) -> str:
        """Where it delivers to, for messages; without secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._relay!r}, {self._place})"
