"""The claims of actions, as a worker calls them."""

from __future__ import annotations

from typing import LiteralString

CLAIMS: dict[str, LiteralString] = {
    "claim_actions": "select msg_id, read_ct, message from headrace.claim_actions(%(actions)s, %(max)s, %(lease_s)s, %(after)s)",
    "claim_ordered_actions": "select msg_id, read_ct, message from headrace.claim_ordered_actions(%(action)s, %(max)s, %(lease_s)s)",
    "claim_retried_action": "select msg_id, read_ct, message from headrace.claim_retried_action(%(actions)s, %(ordered)s, %(lease_s)s)",
}
