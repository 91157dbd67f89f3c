-- The name of the queue in pgmq that holds the dead letters of an action queue: hrd_… for hr_…. The prefixes differ, so that no
-- namespace's dead letters are another one's actions.
create or replace function headrace_internal.dead_letter_queue(p_queue text) returns text
language sql immutable
return 'hrd_' || substr(p_queue, 4);
