-- The rules of one topic over the events after p_after up to p_upto: which version is true of which event.
-- A template: what is filled in comes from our own trees and names, never from a user's text.
-- Nested loops in any case: the plan is made once, and must be right for one event as for thousands, for one rule as for ten
-- thousand. Indexes: log_position, rule_match_access.
create or replace function headrace_internal.{function}(p_after bigint, p_upto bigint) returns setof headrace_internal.rule_hit
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as {body};
revoke execute on function headrace_internal.{function}(bigint, bigint) from public;
