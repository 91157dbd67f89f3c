"""`headrace token` and `headrace hook`."""

from __future__ import annotations

from headrace.db import Connection
from headrace.web.http.access_tokens import token_digest
from tests.builders import topic
from tests.cli.conftest import Cli


def test_token_is_created_listed_and_revoked(cli: Cli, conn: Connection) -> None:
    words = ("shop", "--publish", "--read", "--topic", "orders", "--type", "order.*", "--days", "90")
    token = cli("token", "create", *words).out.strip()
    assert token.startswith("hrt_") and len(token) == 47
    assert conn.execute("select count(*) from headrace.find_access_token(%s)", (token_digest(token),)).fetchone() == (1,)
    assert cli("token", "create", *words).code == 4
    assert cli("token", "create", "x").code == 2
    assert cli("token", "create", "Not a name", "--read").code == 5
    (row,) = cli("token", "list", "--json").json
    assert (row["name"], row["rights"], row["topics"], row["event_types"]) == (
        "shop",
        ["publish", "read"],
        ["orders"],
        ["order.*"],
    )
    assert token not in cli("token", "list").out
    assert "valid" in cli("token", "list").out
    assert cli("token", "revoke", "shop").code == 0
    assert "revoked" in cli("token", "list").out
    assert cli("token", "revoke", "shop").code == 3
    assert cli("token", "create", *words).code == 0, "the name is free again"


def test_hook_is_created_changed_listed_and_dropped(cli: Cli, conn: Connection) -> None:
    topic(conn)
    hook = cli("hook", "create", "github", "orders", "--scheme", "github", "--secret", "env:GITHUB")
    assert hook.code == 0 and "/hooks/default/github" in hook.out
    assert cli("hook", "create", "github", "orders", "--scheme", "github", "--secret", "env:GITHUB").code == 4
    leaked = cli("hook", "create", "other", "orders", "--scheme", "token", "--secret", "s3cret-of-mine")
    assert leaked.code == 5 and "s3cret" not in leaked.err
    assert cli("hook", "create", "other", "orders", "--scheme", "token", "--secret", "env:A", "--mapping", "{").code == 2
    assert cli("hook", "alter", "github").code == 2
    changed = cli("hook", "alter", "github", "--secret", "env:NEW", "--secret", "env:GITHUB", "--mapping", '{"type": "gh"}')
    assert changed.code == 0
    facts = cli("hook", "show", "github", "--json").json
    assert facts["secrets"] == ["env:NEW", "env:GITHUB"]
    assert facts["mapping"]["type"] == "gh" and facts["mapping"]["key"] == "{body:repository.full_name}"
    assert "github" in cli("hook", "list").out
    assert cli("hook", "drop", "github", "--yes").code == 0
    assert cli("hook", "show", "github").code == 3
