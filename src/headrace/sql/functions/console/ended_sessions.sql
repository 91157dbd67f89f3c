-- The sessions of the console that were signed out. Processes that serve it ask every few seconds. Locks nothing; reads the whole table,
-- which has a row for each sign-out of the last hours.
create or replace function headrace_internal.ended_sessions() returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select s.session_hash from headrace_internal.ended_session s
$$;
