"""Rules: conditions → firings → actions.

Owns: rules, their versions and firings. Promises: each version fires exactly once per position, whatever crashes, because
firings, actions and the cursor commit together; every event ends as matched or unmatched; user text is never executed."""

from headrace.rules.condition_tester import database_engine
from headrace.rules.engine import FiredBatch, RuleEngine, WatchedTopic
from headrace.rules.rule import (
    RULES,
    Rule,
    RuleState,
    RuleVersion,
    alter_rule,
    create_rule,
    drop_rule,
    get_rule,
    list_rule_versions,
    list_rules,
    load_rules,
)

__all__ = [
    "RULES",
    "FiredBatch",
    "Rule",
    "RuleEngine",
    "RuleState",
    "RuleVersion",
    "WatchedTopic",
    "alter_rule",
    "create_rule",
    "database_engine",
    "drop_rule",
    "get_rule",
    "list_rule_versions",
    "list_rules",
    "load_rules",
]
