-- Makes the statement trigger of one operation. Transition tables carry all rows of the statement at once.
create or replace function headrace_internal.make_capture_trigger(p_table regclass, p_topic_id integer, p_operation text) returns void
language plpgsql volatile
as $$
begin
    execute format('create trigger %I after %s on %s referencing %s for each statement execute function headrace_internal.capture_rows(%L)',
        format('headrace_capture_%s_%s', p_topic_id, p_operation),
        p_operation,
        p_table,
        case p_operation when 'insert' then 'new table as new_rows' when 'delete' then 'old table as old_rows'
            else 'old table as old_rows new table as new_rows' end,
        p_topic_id);
end
$$;
