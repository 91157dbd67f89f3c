-- The events of a batch as a correlator's table sees them, after p_after up to p_upto; without those that have no key.
-- Index: log_position.
create or replace function headrace_internal.read_symbols(p_correlator_id integer, p_after bigint, p_upto bigint)
returns table ("position" bigint, key text, symbol integer, symbols integer[], appended_at timestamptz, facts text[])
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_classifier text;
begin
    select t.classifier into strict v_classifier
    from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id;
    return query execute format('select e.position, e.key, e.symbol, e.symbols, e.appended_at, e.facts from (%s) e '
        'where e.key is not null order by e.position', v_classifier) using p_after, p_upto;
end
$$;
