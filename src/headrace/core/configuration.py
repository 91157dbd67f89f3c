"""Values of configuration: addresses that a process listens on, and references to secrets.

Servers and nodes find the secret of a hook or relay by its reference; the database has the reference only.
`env:GITHUB` in namespace `shop` is the variable HEADRACE_SECRET_SHOP__GITHUB, `file:github` the file shop.github in the folder
of secrets (HEADRACE_SECRETS, else CREDENTIALS_DIRECTORY, else /run/secrets). The namespace is part of the name, so that nobody can use
a secret of another namespace, or any other variable or file of the server, by writing its name into a hook or relay."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


FOLDER_VARIABLES = ("HEADRACE_SECRETS", "CREDENTIALS_DIRECTORY")
FOLDER = "/run/secrets"
SECRET_BYTES_MAX = 65_536
# No double underscore in a name: the last one in the variable ends the namespace.
_reference = re.compile(r"(?:env:(?P<env>[A-Z0-9]+(?:_[A-Z0-9]+)*)|file:(?P<file>[A-Za-z0-9][A-Za-z0-9_-]*))", re.ASCII)


def is_reference(value: object) -> bool:
    """True for a text that is meant as a reference; `parse_reference` says whether it is a valid one."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def parse_reference(reference: str) -> re.Match[str]:
    """Raises Invalid, without the text: somebody may have written the secret itself."""
    match = _reference.fullmatch(reference) if len(reference) <= 100 else None
    if match is None:
        raise Invalid(
            f"a text of {len(reference)} characters is not a reference to a secret; write env:NAME (A-Z, 0-9 and single _) or "
            "file:name (letters, digits, _ and -), and never the secret itself"
        )
    return match


def describe_secret_source(reference: str, namespace: str) -> str:
    """Describes where the server looks for the secret of a reference. Raises Invalid."""
    match = parse_reference(reference)
    if match["env"]:
        return f"the variable {_variable(match, namespace)}"
    return f"the file {namespace}.{match['file']} in its folder of secrets ({FOLDER_VARIABLES[0]})"


def _variable(match: re.Match[str], namespace: str) -> str:
    return f"HEADRACE_SECRET_{namespace.upper()}__{match['env']}"


def read_secret(reference: str, namespace: str, environ: Mapping[str, str] = os.environ) -> str:
    """The secret. Raises Invalid if it is missing; the message names the variable or file, and no secret."""
    match = parse_reference(reference)
    if match["env"]:
        variable = _variable(match, namespace)
        if not (secret := environ.get(variable, "").strip()):
            raise Invalid(f"the variable {variable} is not set; set it where the server or node runs, or change the reference")
        return secret
    folder = Path(next((environ[name] for name in FOLDER_VARIABLES if environ.get(name)), FOLDER))
    path = folder / f"{namespace}.{match['file']}"
    try:
        with path.open("rb") as file:
            secret = file.read(SECRET_BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError):
        secret = ""
    if not secret:
        raise Invalid(f"the file {path} cannot be read or is empty; write the secret there, or change the reference")
    return secret
