-- Sessions of the console that were signed out, until they would have ended anyway. Only the owner and roles of nodes reach it.
create table headrace_internal.ended_session (
    -- The SHA-256 of the session's random part: nobody can make a cookie from it.
    session_hash text        not null,
    ends_at      timestamptz not null,
    constraint ended_session_pkey primary key (session_hash)
);
