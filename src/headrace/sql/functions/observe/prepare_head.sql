-- Prepares what headrace_internal.head_call calls, in this session: with the time of an event, or without.
create or replace function headrace_internal.prepare_head(p_table regclass, p_with_time boolean) returns void
language plpgsql volatile
as $$
begin
    if p_with_time then
        execute format('prepare headrace_metrics_next_%s (bigint, bigint) as '
            'select (select l.position from %2$s l where l.position >= $1 order by l.position desc limit 1), '
            '(select date_part(''epoch'', l.appended_at) from %2$s l where l.position = $2)', p_table::oid, p_table);
    else
        execute format('prepare headrace_metrics_head_%s (bigint) as '
            'select l.position, null::double precision from %2$s l where l.position >= $1 order by l.position desc limit 1', p_table::oid, p_table);
    end if;
end
$$;
