"""Checks: one function per promise. Pure: they take the evidence of a run and return a result with the smallest example."""

from collections.abc import Callable

from headrace.prove.checks import log, reactions, timing
from headrace.prove.checks.result import CheckResult, Violation, merge_shards
from headrace.prove.checks.timing import rate_returns
from headrace.prove.evidence import Evidence

CHECKS: tuple[Callable[[Evidence], CheckResult], ...] = (
    log.acknowledged_is_logged,
    log.events_as_sent,
    log.rolled_back_is_invisible,
    log.known_events_only,
    log.positions_without_gaps,
    log.one_event_per_id,
    log.producer_order_per_key,
    log.live_reads_are_final,
    log.sink_writes_once,
    reactions.consumed_once,
    reactions.consumed_in_order,
    reactions.consumed_matches_log,
    log.relayed_once,
    log.relayed_at_least_once,
    reactions.poison_becomes_dead_letter,
    reactions.firings_match_rules,
    reactions.outputs_match_replay,
    reactions.outputs_arrive,
    reactions.pipeline_writes_once,
    reactions.actions_end_once,
    reactions.effects_once,
    reactions.ordered_by_key,
    reactions.ticks_once,
    reactions.unique_once,
    reactions.not_before_its_time,
    reactions.nothing_starts_paused,
    reactions.redriven_once,
    log.erased_is_gone,
    timing.one_holder,
    timing.all_work_finished,
    timing.processes_survive,
    timing.other_shards_continue,
)

__all__ = ["CHECKS", "CheckResult", "Violation", "merge_shards", "rate_returns"]
