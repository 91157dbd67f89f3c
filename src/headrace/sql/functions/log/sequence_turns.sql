-- Which of many waiting topics a call of headrace.sequence serves, and in which order: namespaces take turns, so that what one has
-- waiting delays no other. First one topic of each namespace, then a second one of those that have more, and so on, 100 in
-- all; within a turn chance decides, so that no topic starves.
-- Locks nothing. Index: topic_pkey.
create or replace function headrace_internal.sequence_turns(p_waiting integer[]) returns integer[]
language sql volatile
as $$
    select array_agg(w.topic_id order by w.turn, w.chance)
    from (
        select t.topic_id, row_number() over (partition by t.namespace order by random()) as turn, random() as chance
        from headrace_internal.topic t where t.topic_id = any (p_waiting)
        order by turn, chance limit 100
    ) w
$$;
