"""Rules: conditions → firings → actions.

Owns: rules, their versions and firings. Promises: each version fires exactly once per position, whatever crashes, because
firings, actions and the cursor commit together; every event ends as matched or unmatched; user text is never executed."""

from headrace.rules.engine import FiredBatch as FiredBatch, RuleEngine as RuleEngine, WatchedTopic as WatchedTopic
from headrace.rules.programs import database_engine as database_engine
from headrace.rules.rule import (
    RULES as RULES,
    Rule as Rule,
    RuleState as RuleState,
    RuleVersion as RuleVersion,
    alter_rule as alter_rule,
    create_rule as create_rule,
    drop_rule as drop_rule,
    get_rule as get_rule,
    list_rule_versions as list_rule_versions,
    list_rules as list_rules,
    load_rules as load_rules,
)
