-- The checker's own tables, as an application has them: what handlers write through their transactions. They have no constraint
-- that would hide a repetition; the identity column only gives the order of writing.
create schema headrace_prove;
create table headrace_prove.consumed (
    seq       bigint  not null generated always as identity primary key,
    consumer  text    not null,
    partition integer not null,
    position  bigint  not null,
    event_id  uuid    not null,
    node      text    not null
);
create table headrace_prove.effect (
    seq       bigint  not null generated always as identity primary key,
    action_id uuid    not null,
    action    text    not null,
    attempt   integer not null,
    node      text    not null
);
-- Handlers that a fault or a seeded bug slows down.
create table headrace_prove.switch (
    name    text             not null primary key,
    pause_s double precision not null
);
-- Actions that fail until they are here.
create table headrace_prove.mended (action_id uuid not null primary key);
-- How long a handler of an action takes. A seeded bug may put another function in its place, which waits for what the bug leads to.
create function headrace_prove.pause_action(p_action text, p_action_id uuid, p_attempt integer, p_node text) returns void
language sql volatile
as $$
    select pg_sleep(0.03 + coalesce((select s.pause_s from headrace_prove.switch s where s.name = p_action), 0))
$$;
