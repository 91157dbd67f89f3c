-- Remembers that a session of the console was signed out, and forgets those that have ended by themselves. For the console's own role:
-- the owner, or a node's. Locks: the rows it deletes. Index: ended_session_pkey; the table is small.
create or replace function headrace_internal.end_session(p_session_hash text, p_ends_at timestamptz) returns void
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    delete from headrace_internal.ended_session s where s.ends_at < headrace.clock();
    insert into headrace_internal.ended_session (session_hash, ends_at) values (p_session_hash, p_ends_at)
    on conflict (session_hash) do nothing;
$$;

-- Returns the sessions of the console that were signed out. Processes that serve it ask every few seconds. Locks nothing; reads the whole table,
-- which has a row for each sign-out of the last hours.
create or replace function headrace_internal.ended_sessions() returns setof text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select s.session_hash from headrace_internal.ended_session s
$$;
