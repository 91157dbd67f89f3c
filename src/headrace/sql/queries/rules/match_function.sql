-- Evaluates the rules of one topic on the events after p_after up to p_upto: which version is true for which event.
-- A template: only our own printed trees and names are filled in, never a user's text.
-- Nested loops only: the plan is made once, and must suit one event and thousands, one rule and ten thousand. Indexes: log_position, rule_match_access.
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
