-- The table or view of a name, in whichever of our two schemas it is; null when there is none.
create or replace function headrace_internal.relation_of(p_relation text) returns regclass
language sql stable
as $$
    select coalesce(to_regclass(format('headrace.%I', p_relation)), to_regclass(format('headrace_internal.%I', p_relation)))
$$;
