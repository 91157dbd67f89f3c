-- The statement that reads the newest position of a table of the log and, with p_position, the time of the event after that in seconds
-- since 1970; for p_prepare as a call of what headrace_internal.prepare_head has prepared.
-- p_known: a position that the head had before, or null. With it a scan backwards reads only the entries since then, instead of a
-- whole page of the index. Index: log_position, backwards.
create or replace function headrace_internal.head_call(p_table regclass, p_known bigint, p_position bigint, p_prepare boolean) returns text
language sql stable
as $$
    select case
        when p_prepare and p_position is null then 'execute headrace_metrics_head_' || p_table::oid || '(' || coalesce(p_known, 0) || ')'
        when p_prepare then 'execute headrace_metrics_next_' || p_table::oid || '(' || coalesce(p_known, 0) || ',' || p_position + 1 || ')'
        else format('select (select l.position from %1$s l where l.position >= %2$s order by l.position desc limit 1), '
            '(select date_part(''epoch'', l.appended_at) from %1$s l where l.position = %3$s)',
            p_table, coalesce(p_known, 0), coalesce((p_position + 1)::text, 'null'))
    end
$$;
