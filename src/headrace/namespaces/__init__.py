"""Namespaces: logical isolation, and which role may do what in which namespace.

Owns: namespaces and the grants in them. Promises: a role of one namespace can neither read nor act in another; without a grant
nothing is allowed. The database enforces it by privileges and row-level security, whatever client is used."""

from headrace.namespaces.namespace import (
    Grant,
    Level,
    Namespace,
    UnknownNames,
    alter_namespace,
    create_namespace,
    drop_namespace,
    grant_namespace,
    list_grants,
    list_namespaces,
    revoke_namespace,
)

__all__ = [
    "Grant",
    "Level",
    "Namespace",
    "UnknownNames",
    "alter_namespace",
    "create_namespace",
    "drop_namespace",
    "grant_namespace",
    "list_grants",
    "list_namespaces",
    "revoke_namespace",
]
