-- Prepares the program of a topic in this session, and deallocates programs that are no longer valid. The program's hits come in
-- pieces: an array ends at 1 GB, and a payload may have 1 MB.
create or replace function headrace_internal.prepare_match(p_topic_id integer, p_kind text) returns void
language plpgsql volatile
as $$
declare
    v_statement text;
begin
    for v_statement in
        select s.name from pg_prepared_statements s
        where s.name ~ '^headrace_(after|late)_' and not exists (
            select from headrace_internal.rule_program p
            where (p.topic_id, p.kind) <> (p_topic_id, p_kind)
                and s.name = headrace_internal.match_statement(p.topic_id, p.kind, p.checksum))
    loop
        execute format('deallocate %I', v_statement);
    end loop;
    select format(
        'prepare %I (bigint, bigint) as select array_agg(h.hit order by h.n) from ('
        'select row(h.version_id, h.position, h.event_id, h.type, h.key, h.payload, h.emitted_at, h.producer, '
        'headrace_internal.trace_headers(h.headers))::headrace_internal.rule_hit as hit, '
        'row_number() over o as n, sum(pg_column_size(h.payload)) over (o rows unbounded preceding) as bytes '
        'from (%s) h window o as (order by h.position, h.version_id)'
        ') h group by h.n / 1000, h.bytes / 16000000 order by min(h.n)',
        headrace_internal.match_statement(p_topic_id, p_kind, p.checksum), p.program)
    into v_statement
    from headrace_internal.rule_program p where p.topic_id = p_topic_id and p.kind = p_kind;
    execute v_statement;
end
$$;
