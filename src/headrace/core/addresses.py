"""Addresses that a process listens on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from headrace.core.errors import Invalid


@dataclass(frozen=True)
class Address:
    """Where the server listens. Port 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in `host:port`, such as 127.0.0.1:9464 or [::1]:9464; raises Invalid for anything else."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise Invalid(f"{text!r} is not an address; write host:port, such as 127.0.0.1:9464")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if ":" in host and not text.startswith("["):
            raise Invalid(f"{text!r} is not an address; write an IPv6 address in brackets, such as [::1]:9464")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        import ipaddress

        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
