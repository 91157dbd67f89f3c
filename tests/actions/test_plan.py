"""Plans: claims follow the queue's indexes, whatever the statistics say."""

from __future__ import annotations

import re

import psycopg
import pytest

from headrace.db import Connection

PARAMETERS = {
    "claim_actions": (["work"], 100, 30.0, 0),
    "claim_ordered_actions": ("work", 100, 30.0, 2000),
    "claim_retried_action": (["work"], True, 30.0),
    "ack_actions": ([1], [1], [0.1], None, "default"),
}
# Statements that a session plans once, whatever their parameters.
TYPES = {"claim_actions": "text[], integer, float8, bigint", "ack_actions": "bigint[], integer[], real[], uuid, text"}
SOURCE = "select prosrc, proconfig from pg_proc where proname = %s"


def explain(conn: Connection, function: str, *, generic: bool = False) -> str:
    """The plan of the statement that a function builds, under the function's own settings."""
    row = conn.execute(SOURCE, (function,)).fetchone()
    assert row is not None
    [statement] = re.findall(r"\$sql\$(.*?)\$sql\$", row[0], re.DOTALL)
    statement = statement.replace("%1$I", "q_hr_default")
    order = [int(number) - 1 for number in re.findall(r"\$(\d)", statement)]
    with conn.transaction(), psycopg.ClientCursor(conn) as cursor:
        for setting in row[1]:
            name, _, value = setting.partition("=")
            conn.execute("select set_config(%s, %s, true)", (name, value))
        if generic:
            cursor.execute("set local plan_cache_mode = force_generic_plan")
            cursor.execute(f"prepare planned ({TYPES[function]}) as {statement}")  # type: ignore[arg-type]
            marks = ", ".join(["%s"] * len(PARAMETERS[function]))
            cursor.execute(f"explain execute planned({marks})", PARAMETERS[function])  # type: ignore[arg-type]
        else:
            text = re.sub(r"\$(\d)", r"%s", statement)
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


@pytest.mark.parametrize(
    ("function", "indexes"),
    [
        ("claim_actions", {"q_hr_default_pkey", "q_hr_default_priority", "q_hr_default_vt_idx"}),
        ("ack_actions", {"q_hr_default_pkey"}),
    ],
)
def test_plan_that_a_session_made_on_an_empty_queue_uses_the_indexes(conn: Connection, function: str, indexes: set[str]) -> None:
    """The function keeps it while the queue grows."""
    source = str(conn.execute("select prosrc from pg_proc where proname = %s", (function,)).fetchone())
    assert "pgmq.q_hr_default" in source
    plan = explain(conn, function, generic=True)
    assert {name for name in indexes if name in plan} == indexes, plan
    assert "Seq Scan" not in plan and "Sort" not in plan and "Join" not in plan.replace("Nested", ""), plan
