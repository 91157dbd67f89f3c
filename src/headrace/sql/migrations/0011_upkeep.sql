-- Upkeep whose cost does not grow with what is kept. Results and attempts are found by their age also once pages are used again.
drop index headrace.action_result_age;
create index action_result_age on headrace.action_result (ended_at);
drop index headrace.attempt_age;
create index attempt_age on headrace.attempt (failed_at);
-- It is told how much to do at a time.
drop function if exists headrace.trim_results(interval);

-- The key where the next look for keys to forget begins.
alter table headrace.correlator_table add column forget_from text collate "C" not null default '';
