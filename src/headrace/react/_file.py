"""Rules kept in a file: YAML with a list `rules`, or Python with a variable `rules`.

Promises: a file is taken whole or not at all; what is wrong is told with the rule's name, and nothing is written."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from headrace.core import BadRuleFile
from headrace.lang.condition import ConditionError, parse
from headrace.react._rule import Rule

RULES_MAX = 100_000


def load_rules(path: Path | str) -> tuple[Rule, ...]:
    """The rules of a file, checked. Raises BadRuleFile, and ConditionError for a condition that is none."""
    path = Path(path)
    read = {".yaml": _from_yaml, ".yml": _from_yaml, ".py": _from_python}.get(path.suffix)
    if read is None:
        raise BadRuleFile(f"{path.name} is neither YAML nor Python; name it .yaml, .yml or .py")
    if not path.is_file():
        raise BadRuleFile(f"there is no file {path}")
    rules = read(path)
    _check(path.name, rules)
    return tuple(rules)


def _from_yaml(path: Path) -> Sequence[Rule]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadRuleFile(f"{path.name} is not YAML: {error}") from None
    listed = content.get("rules") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise BadRuleFile(
            f"{path.name} has no list `rules`; write rules: and a list of name, topic, event_type, condition, action"
        )
    return [_rule(path.name, number, entry) for number, entry in enumerate(listed, 1)]


def _rule(file: str, number: int, entry: object) -> Rule:
    if not isinstance(entry, dict):
        raise BadRuleFile(f"{file}, rule {number}: not a mapping of names to values")
    unknown = sorted(map(str, set(entry) - set(Rule.__dataclass_fields__)))
    if unknown:
        known = ", ".join(Rule.__dataclass_fields__)
        raise BadRuleFile(f"{file}, rule {number} ({entry.get('name')}): unknown {', '.join(unknown)}; known are {known}")
    try:
        return msgspec.convert(entry, Rule)
    except msgspec.ValidationError as error:
        raise BadRuleFile(f"{file}, rule {number} ({entry.get('name')}): {error}") from None


def _from_python(path: Path) -> Sequence[Rule]:
    try:
        rules = runpy.run_path(str(path)).get("rules")
    except Exception as error:  # The file is the user's code: whatever it raises is told, with where it came from.
        raise BadRuleFile(f"{path.name} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(rules, list | tuple) or not all(isinstance(rule, Rule) for rule in rules):
        raise BadRuleFile(f"{path.name} has no list `rules` of headrace.react.Rule")
    return rules


def _check(file: str, rules: Sequence[Rule]) -> None:
    if len(rules) > RULES_MAX:
        raise BadRuleFile(f"{file} has {len(rules)} rules, at most {RULES_MAX} are allowed")
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise BadRuleFile(f"{file}: rule {rule.name!r} is there twice; give one another name")
        seen.add(rule.name)
        try:
            parse(rule.condition)
        except ConditionError as error:
            error.add_note(f"in {file}, rule {rule.name!r}")
            raise
