"""Namespaces: logical isolation, and which role may do what in which namespace.

Owns: namespaces and the grants in them. Promises: a role of one namespace can neither read nor act in another; without a grant
nothing is allowed. The database enforces it, whatever client is used: roles have functions and
views, which check their level, and no right on a table."""

from headrace.namespaces.namespace import (
    Grant,
    Level,
    Namespace,
    UnknownNames,
    alter_namespace,
    create_namespace,
    drop_namespace,
    grant_namespace,
    grant_node,
    list_grants,
    list_namespaces,
    revoke_namespace,
    revoke_node,
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
    "grant_node",
    "list_grants",
    "list_namespaces",
    "revoke_namespace",
    "revoke_node",
]
