"""What a process with a session needs of a database: backends of its own, and a schema that its release can work with.

Promises: checked before anything is set on a session, so that a refusal leaves nothing behind in a pooler's connections.

The migrator records its release, and the oldest release whose nodes can work with the schema it leaves: only the newer one can
know that. So an older migrator refuses, and nodes of two releases run side by side during an upgrade."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from importlib.metadata import version
from typing import LiteralString

from psycopg import errors

from headrace.core import NotMigrated, SchemaTooNew, map_database_errors
from headrace.db.connections import Target, connect, connect_async
from headrace.db.pooler import refuse_transaction_pooler, refuse_transaction_pooler_async

RELEASE = version("headrace")
OLDEST_NODE = "0.1.0"
"""The oldest release whose nodes can run on this release's schema. Raise it when a function that nodes call goes away or changes
its meaning; until the release after, keep the old function beside the new one."""
SCHEMA_RELEASE: LiteralString = "select r.release, r.oldest_node from headrace.schema_release() r"


def check_migrator(applied: Iterable[str], known_migrations: Iterable[str], releases: Iterable[str], release: str) -> None:
    """Raises SchemaTooNew if a newer release has migrated the database: by its number, or by a migration we do not have."""
    newest = max(releases, key=_number, default=release)
    if _number(newest) > _number(release):
        raise SchemaTooNew(
            f"the database was migrated by headrace {newest}, and this is {release}: it would put older functions in place of newer "
            f"ones; nothing was changed. Install headrace {newest} or newer here; to go back, restore a backup from before the upgrade"
        )
    unknown = sorted(name for name in set(applied) - set(known_migrations) if name.startswith("migrations/"))
    if unknown:
        raise SchemaTooNew(
            f"the database has {len(unknown)} migrations that this version ({release}) does not know: {', '.join(unknown)}; "
            "nothing was changed. Install the version of headrace that applied them, or a newer one"
        )


def check_node_release(recorded: tuple[str, str] | None, *, database: str, release: str = RELEASE) -> None:
    """Raises SchemaTooNew or NotMigrated if nodes of this release cannot run on a schema with this release and oldest node."""
    if recorded is None or _number(recorded[0]) < _number(release):
        before = recorded[0] if recorded else "an unknown release"
        raise NotMigrated(f"database {database} was migrated by headrace {before}, this node is {release}; run: headrace migrate")
    newest, oldest_node = recorded
    if _number(release) < _number(oldest_node):
        raise SchemaTooNew(
            f"database {database} was migrated by headrace {newest}, which works with nodes from {oldest_node} on, "
            f"and this node is {release}; install headrace {newest} here"
        )


def _number(release: str) -> tuple[int, ...]:
    """Major, minor and patch. A pre-release counts as its release."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:3])


def require_sessions(target: Target, who: str) -> None:
    """Raises TransactionPooler if the address leads to a pooler in transaction mode. `who` needs sessions, for the message."""
    with ExitStack() as stack, map_database_errors():
        first, second = (stack.enter_context(connect(target)) for _ in range(2))
        refuse_transaction_pooler(first, second, who)


async def check_node_database(target: Target) -> None:
    """Raises TransactionPooler, SchemaTooNew or NotMigrated if a node cannot run here. Errors of the connection stay as they are,
    so that the caller can retry."""
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(await connect_async(target)) for _ in range(2)]
        await refuse_transaction_pooler_async(first, second, f"a node on {target}")
        try:
            row = await (await first.execute(SCHEMA_RELEASE, prepare=False)).fetchone()
        except (errors.UndefinedFunction, errors.InvalidSchemaName):
            raise NotMigrated(f"database {target} has no schema of headrace, or an older one; run: headrace migrate") from None
        check_node_release(row and (row[0], row[1]), database=str(target))
