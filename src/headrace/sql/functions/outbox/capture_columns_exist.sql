-- Refuses columns that the table does not have (HR300), naming those it has.
create or replace function headrace_internal.capture_columns_exist(p_table regclass, p_known text[], p_wanted text[]) returns void
language plpgsql stable
as $$
declare
    v_missing text := (select min(w.name) from unnest(p_wanted) w (name) where w.name <> all (p_known));
begin
    if v_missing is not null then
        raise exception 'table % has no column "%"', p_table, v_missing
            using errcode = 'HR300', hint = format('Its columns are %s.', array_to_string(p_known, ', '));
    end if;
end
$$;
