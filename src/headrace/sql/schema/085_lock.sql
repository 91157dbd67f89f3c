-- Locks of headrace itself. Rows of a closed table and not advisory locks: anybody may hold an advisory lock, and so stop others.
create table headrace_internal.lock (
    name    text    not null,
    -- The session that holds it, for locks that outlive a transaction: process id and role. Such a lock ends with its session.
    pid     integer,
    role    name,
    constraint lock_pkey primary key (name)
);
