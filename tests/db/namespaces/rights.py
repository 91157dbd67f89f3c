"""The rights of each level, written by hand. A right that is not here must not exist."""

from __future__ import annotations

from headrace.db import Level

# What every level may call and read.
ANY = """
clock current_namespace schema_release log_epoch uuid_v7 topic_id queue_name wake_queue send_action send_actions is_paused copy_route event_within_limits
time_within_limits json_depth json_number_too_big caller_is_owner level_includes readable_definitions
find_access_token touch_access_tokens
"""
FUNCTIONS: dict[str, str] = {
    "publish": "publish publish_many publish_cloudevent publish_rows stage_rows drop_staged_rows commit_spark_batch"
    " wake_sequencer outbox_slot admit_event publish_once find_hook",
    "consume": """
log_head log_clock read_log find_event is_archived archived_from create_consumer drop_consumer due_consumers claim claim_at claim_events advance
advance_partitions fail release_claims hold_back claim_redrive redriven_event end_redrive redrive discard edit_dead_event skip_event seek seek_position pause resume
schedule_id next_ticks queue_state cursor_lag evaluate unmatched_reason
report_relay metrics queued_actions action_dead_letters count_dead_letters read_dead_letters error_group register_node
register_consumers deregister_node heartbeat
""",
    "work": """
claim_actions claim_ordered_actions claim_retried_action ack_actions extend_actions release_actions fail_action bury_actions bury_lost_action
bury_unhandled set_queue_asleep queue_is_empty edit_dead_letter redrive_actions discard_actions cancel_actions run_actions_now set_action_priority forget_nodes
""",
    "admin": """
create_topic create_topic_as_role alter_topic drop_topic set_engine capture capture_rows record_capture forget_capture drop_capture_triggers
release_capture plan_schedule run_schedule run_schedule_now
keep_until_archived record_archive time_partitions try_lock_topic write_definition handle_event_type set_event_schema alter_event_schema
drop_event_schema report_findings create_access_token revoke_access_token create_hook alter_hook drop_hook erase_key pending_erasures erased_texts
end_erasure end_vacuum
""",
}
VIEWS: dict[str, str] = {
    "any": "namespace namespace_grant topic outbox event_type action event_schema event_schema_version",
    "publish": "capture",
    "consume": """
log archive consumer cursor event_dead_letter schedule schedule_state schedule_due schedule_tick rule rule_version firing correlator correlator_version correlator_table
correlator_instance correlation node action_result attempt pipeline pipeline_batch consumer_lag dead_letter rule_state event_history event_unmatched
correlator_state correlation_history node_state pipeline_state failure pause relay relay_version relay_state stream stream_output
""",
    "admin": "access_token hook erasure",
}
# The columns that an admin may update; all views of definitions may be inserted into.
WRITABLE = {
    "rule": "namespace rule topic event_type condition action priority delay_s timing active source dropped",
    "correlator": "namespace correlator topic key pattern outputs forget_after evidence_max active allow_feedback restart source dropped",
    "relay": "namespace relay topic condition target options format mapping start attempts backoff_s backoff_max_s when_exhausted"
    " key_order batch concurrency active source dropped",
    "schedule": "namespace schedule cron zone topic type payload key headers active source missed missed_max grace_s dropped",
    "event_type": "namespace event_type description dropped",
    "action": "namespace action description dropped",
}
# The statement that publishes: it checks the level of the role itself.
INSERTABLE = "event_0 event_1 event_2"
# Functions of the internal schema that views and triggers call for a role. No role can name them: it has no usage on the schema.
INTERNAL = "caller_is_owner level_includes readable_definitions error_group unmatched_reason wake_sequencer admit_event"
INCLUDES: dict[Level, list[str]] = {
    "publish": ["publish"],
    "consume": ["consume"],
    "work": ["work", "consume"],
    "admin": ["publish", "consume", "work", "admin"],
}


def expected_rights(level: Level) -> set[tuple[str, str]]:
    """Pairs of object and privilege."""
    names = set(ANY.split()).union(*(FUNCTIONS[part].split() for part in INCLUDES[level]))
    internal = set(INTERNAL.split())
    functions = {(f"function {'headrace_internal' if name in internal else 'headrace'}.{name}", "execute") for name in names}
    views = set(VIEWS["any"].split()).union(*(VIEWS.get(part, "").split() for part in INCLUDES[level]))
    writes = {(f"view headrace.{view}", "insert") for view in WRITABLE} | {
        (f"headrace.{view}.{column}", "update") for view, columns in WRITABLE.items() for column in columns.split()
    }
    return (
        functions
        | {(f"view headrace.{view}", "select") for view in views}
        | (writes if level == "admin" else set())
        | ({(f"view headrace.{view}", "insert") for view in INSERTABLE.split()} if "publish" in INCLUDES[level] else set())
        | ({("table headrace_internal.outbox_id_seq", "usage")} if "publish" in INCLUDES[level] else set())
        | {("schema headrace", "usage")}
    )
