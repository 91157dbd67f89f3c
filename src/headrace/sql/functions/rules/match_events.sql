-- Evaluates the rules of a topic on the events after p_after up to p_upto: which version is true for which event, in order and in
-- pieces. Nothing for a topic without rules of this kind.
-- The program is a prepared statement of the session, so that it is planned once per session: by its text in a table instead of a
-- function nobody but the session can read it, and no role but the owner's and the node's runs it.
-- Nested loops only: the plan is made once, and must suit one event and thousands, one rule and ten thousand. Indexes: log_position,
-- rule_match_access, rule_program_pkey.
create or replace function headrace_internal.match_events(p_topic_id integer, p_kind text, p_after bigint, p_upto bigint)
returns setof headrace_internal.rule_hit[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_checksum text;
    v_call     text;
begin
    select p.checksum into v_checksum
    from headrace_internal.rule_program p where p.topic_id = p_topic_id and p.kind = p_kind;
    if not found then
        return;
    end if;
    v_call := format('execute %I (%s, %s)', headrace_internal.match_statement(p_topic_id, p_kind, v_checksum), p_after, p_upto);
    begin
        return query execute v_call;
    exception
        -- Not prepared in this session yet (a syntax error on PostgreSQL 15); or a type in it was changed by a migration.
        when invalid_sql_statement_name or syntax_error or feature_not_supported then
            perform headrace_internal.prepare_match(p_topic_id, p_kind);
            return query execute v_call;
    end;
end
$$;
