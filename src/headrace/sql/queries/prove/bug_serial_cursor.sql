-- Seeded bug: the newest serial id that a sequencer has read, per topic. An event that commits later with a smaller id is skipped.
create table headrace_prove.serial (
    topic_id integer not null primary key,
    before   bigint  not null default 0,
    upto     bigint  not null default 0
);
create function headrace_prove.move_serial(p_topic_id integer, p_bound bigint) returns void
language sql volatile
as $$
    insert into headrace_prove.serial as s (topic_id, upto)
    select p_topic_id, coalesce(p_bound, max(o.id), 0) from headrace_internal.outbox o where o.topic_id = p_topic_id
    on conflict (topic_id) do update set before = s.upto, upto = greatest(s.upto, excluded.upto)
$$;
