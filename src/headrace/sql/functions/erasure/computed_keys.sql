-- The keys that a correlator computes from these events of its topic, as long as the log has them. Index: log_position.
create or replace function headrace_internal.computed_keys(p_correlator_id integer, p_positions bigint[]) returns text[]
language plpgsql stable
as $$
declare
    v_classifier text := (select t.classifier from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id);
    v_keys       text[] := '{}';
    v_position   bigint;
    v_key        text;
begin
    if v_classifier is null then
        return v_keys;
    end if;
    foreach v_position in array p_positions loop
        execute format('select e.key from (%s) e', v_classifier) into v_key using v_position - 1, v_position;
        v_keys := v_keys || v_key;
    end loop;
    return array(select distinct k.key from unnest(v_keys) k (key) where k.key is not null);
end
$$;
