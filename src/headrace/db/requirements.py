"""What a process with a session needs of a database: backends of its own, and a schema that its release can work with.

Promises: checked before anything is set on a session, so that a refusal leaves nothing behind in a pooler's connections."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack

from psycopg import errors

from headrace.core import NotMigrated, map_database_errors
from headrace.db.connections import Target, connect, connect_async
from headrace.db.pooler import refuse_transaction_pooler, refuse_transaction_pooler_async
from headrace.db.releases import SCHEMA_RELEASE, check_node_release


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
