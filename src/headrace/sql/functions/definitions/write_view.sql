-- Carries out an insert, update or delete on a view of definitions; an update that sets "dropped" drops the definition. Runs as the writer: headrace.write_definition checks its level.
-- A row that another transaction deleted meanwhile is skipped, as on a table.
create or replace function headrace_internal.write_view() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row jsonb := headrace.write_definition(
        tg_table_name, case when tg_op <> 'INSERT' then to_jsonb(old) end,
        case when tg_op = 'INSERT' or tg_op = 'UPDATE' and new.dropped is not true then to_jsonb(new) end);
begin
    if v_row is null then
        return null;
    elsif tg_op = 'DELETE' then
        return old;
    end if;
    return jsonb_populate_record(new, v_row);
end
$$;
