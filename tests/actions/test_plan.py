"""Plans: claims follow the queue's indexes, whatever the statistics say."""

from __future__ import annotations

import psycopg.sql
import pytest

from headrace.actions.queue import LEASE_SETTINGS
from headrace.db import Connection, query

PARAMETERS = {"actions": ["work"], "action": "work", "max": 100, "lease_s": 30.0, "ordered": True, "after": 0}


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize(
    ("statement", "indexes"),
    [
        ("claim", {"q_hr_default_pkey", "q_hr_default_priority", "q_hr_default_vt_idx"}),
        ("claim_ordered", {"q_hr_default_vt_idx", "q_hr_default_key_order"}),
        ("claim_retried", {"q_hr_default_retried", "q_hr_default_key_order"}),
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
    for name, value in LEASE_SETTINGS.items():
        conn.execute("select set_config(%s, %s, false)", (name, value))
    text = psycopg.sql.SQL("explain " + query(f"actions/{statement}")).format(
        queue=psycopg.sql.Identifier("pgmq", "q_hr_default")
    )  # type: ignore[arg-type]
    plan = "\n".join(str(row[0]) for row in conn.execute(text, PARAMETERS).fetchall())
    assert {name for name in indexes if name in plan} == indexes, plan
    assert "Seq Scan" not in plan and "JIT" not in plan, plan
    # An ordered claim sorts the few rows it has read, once, and not their source.
    assert plan.count("Sort Key") == (1 if statement == "claim_ordered" else 0), plan
    assert ("Sort Key: d" in plan) == (statement == "claim_ordered") and "Anti Join" not in plan, plan
