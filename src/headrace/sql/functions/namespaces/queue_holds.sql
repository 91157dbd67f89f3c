-- Does a namespace's queue hold actions or dead letters? False without a queue.
create or replace function headrace_internal.queue_holds(p_namespace text) returns boolean
language plpgsql stable
as $$
declare
    v_table regclass;
    v_found boolean;
begin
    for v_table in select q.found from headrace_internal.queue_tables(p_namespace) q (found) loop
        execute format('select exists (select from %s)', v_table) into v_found;
        if v_found and v_table::text !~ '\ma_' then
            return true;
        end if;
    end loop;
    return false;
end
$$;
