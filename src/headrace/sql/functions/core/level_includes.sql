-- Does a granted level include another one? 'work' includes consume, 'admin' includes all, and every level includes 'any'.
-- The body is bound when the function is created: views call it with the reader's search path, where "=" may mean anything.
create or replace function headrace_internal.level_includes(p_granted text, p_level text) returns boolean
language sql immutable
return p_level in (p_granted, 'any') or p_granted = 'admin' or (p_granted = 'work' and p_level = 'consume');
