"""Plans: claims follow the queue's indexes, whatever the statistics say."""

from __future__ import annotations

import re

import psycopg
import pytest

from headrace.db import Connection

PARAMETERS = {
    "claim_actions": (["work"], 100, 30.0, 0),
    "claim_ordered_actions": ("work", 100, 30.0),
    "claim_retried_action": (["work"], True, 30.0),
}
SOURCE = "select prosrc, proconfig from pg_proc where proname = %s"


def explain(conn: Connection, function: str) -> str:
    """The plan of the statement that a claim function builds, under the function's own settings."""
    row = conn.execute(SOURCE, (function,)).fetchone()
    assert row is not None
    [statement] = re.findall(r"\$sql\$(.*?)\$sql\$", row[0], re.DOTALL)
    text = re.sub(r"\$(\d)", r"%s", statement.replace("%1$I", "q_hr_default"))
    order = [int(number) - 1 for number in re.findall(r"\$(\d)", statement.replace("%1$I", ""))]
    with conn.transaction(), psycopg.ClientCursor(conn) as cursor:
        for setting in row[1]:
            name, _, value = setting.partition("=")
            conn.execute("select set_config(%s, %s, true)", (name, value))
        cursor.execute("explain " + text, [PARAMETERS[function][place] for place in order])  # type: ignore[operator]
        return "\n".join(str(line[0]) for line in cursor.fetchall())


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize(
    ("statement", "indexes"),
    [
        ("claim_actions", {"q_hr_default_pkey", "q_hr_default_priority", "q_hr_default_vt_idx"}),
        ("claim_ordered_actions", {"q_hr_default_vt_idx", "q_hr_default_key_order"}),
        ("claim_retried_action", {"q_hr_default_retried", "q_hr_default_key_order"}),
    ],
)
def test_claims_use_their_indexes(conn: Connection, statement: str, indexes: set[str], analyzed: bool) -> None:
    conn.execute(
        """select headrace.send_actions('default', array_agg(jsonb_build_object('id', gen_random_uuid(), 'action', 'work',
               'payload', n, 'key', 'k' || n % 100, 'priority', n % 2))) from generate_series(1, 5000) n"""
    )
    conn.execute("update pgmq.q_hr_default set read_ct = 1 where msg_id % 50 = 0")
    if analyzed:
        conn.execute("analyze pgmq.q_hr_default")
    plan = explain(conn, statement)
    assert {name for name in indexes if name in plan} == indexes, plan
    assert "Seq Scan" not in plan and "JIT" not in plan, plan
    # An ordered claim sorts the few rows it has read, once, and not their source.
    assert plan.count("Sort Key") == (1 if statement == "claim_ordered_actions" else 0), plan
    assert ("Sort Key: d" in plan) == (statement == "claim_ordered_actions") and "Anti Join" not in plan, plan
