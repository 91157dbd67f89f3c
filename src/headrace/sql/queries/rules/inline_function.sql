-- Evaluates the inline rules of all topics on the events that a statement has published, in the publisher's transaction.
-- Runs as the owner, since a publisher may publish but not fire. Being a trigger function, nobody can call it.
-- A template like the match function. Indexes: rule_match_access, log_event_id.
create or replace function headrace_internal.react_inline() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as {body};
revoke execute on function headrace_internal.react_inline() from public;
