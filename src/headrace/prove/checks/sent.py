"""Checks of actions that an application sends by itself: unique keys, delays, pauses and redriven dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.prove.checks.result import CheckResult, Violation, check_result
from headrace.prove.checks.timing import LEASE_FAULTS, Excuses
from headrace.prove.evidence import Evidence
from headrace.prove.history import HandlerStarted
from headrace.prove.workload import LATER, MEND

CLOCK_S = 0.5
"""How far the clocks of server and nodes may differ."""


def unique_once(evidence: Evidence) -> CheckResult:
    """Of the sends of one unique key, while the first waits in the queue, one takes effect."""
    sent = [action for action in evidence.sent_actions if action.action == LATER]
    effects = Counter(effect.action_id for effect in evidence.effects)

    def violations() -> Iterator[Violation]:
        for action in sent:
            if (count := sum(effects[id_] for id_ in action.ids)) != 1:
                yield Violation(f"an action with a unique key took effect {count} times", (str(action),))

    return check_result("unique-once", "an action with a unique key is sent once while it is queued", len(sent), violations())


def not_before_its_time(evidence: Evidence) -> CheckResult:
    """No action is handled before its delay is over, except by a node with another clock."""
    due = {id_: action for action in evidence.sent_actions if action.action == LATER for id_ in action.ids}
    excuses = Excuses(evidence, frozenset({"clock"}))
    started = [record for record in evidence.handler_records if isinstance(record, HandlerStarted) and record.action_id in due]
    violations = (
        Violation("an action was handled before its time", (str(due[record.action_id]), str(record)))
        for record in started
        if record.at < due[record.action_id].not_before - CLOCK_S and not excuses.cover(record.at)
    )
    return check_result("not-before-its-time", "no action is handled before its time", len(started), violations)


def nothing_starts_paused(evidence: Evidence) -> CheckResult:
    """No handler of a paused action starts, except on a node that was stopped or cut off while it held the action."""
    ids = {id_ for action in evidence.sent_actions if action.action == LATER for id_ in action.ids}
    excuses = Excuses(evidence, LEASE_FAULTS)
    started = [record for record in evidence.handler_records if isinstance(record, HandlerStarted) and record.action_id in ids]

    def violations() -> Iterator[Violation]:
        for pause in evidence.pauses:
            for record in started:
                if pause.at < record.at < pause.until and not excuses.cover(record.at):
                    yield Violation("a handler started while its action was paused", (str(pause), str(record)))

    examined = sum(pause.until > pause.at for pause in evidence.pauses)
    return check_result("nothing-starts-paused", "nothing new starts while paused", examined, violations())


def redriven_once(evidence: Evidence) -> CheckResult:
    """An action that failed until it was redriven became a dead letter first, and then took effect once."""
    sent = [action for action in evidence.sent_actions if action.action == MEND]
    effects = Counter(effect.action_id for effect in evidence.effects)
    results = Counter((result.action_id, result.outcome) for result in evidence.action_results)

    def violations() -> Iterator[Violation]:
        for action in sent:
            (id_,) = action.ids
            done, dead = results[id_, "done"], results[id_, "dead"]
            if (effects[id_], done) != (1, 1) or not dead:
                counts = f"{dead} times dead, {done} times done, {effects[id_]} effects"
                yield Violation("a redriven action was not handled once", (str(action), counts))

    return check_result("redriven-once", "a redriven dead letter is handled once more", len(sent), violations())
