-- Raises HR101 with the topics of the namespace; without p_list it names none, for a caller who must not see them.
create or replace function headrace_internal.raise_unknown_topic(p_topic text, p_namespace text, p_list boolean default true) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_known     text;
begin
    select string_agg(t.topic, ', ' order by t.topic) into v_known
    from (select topic from headrace_internal.topic where p_list and namespace = v_namespace order by topic limit 10) t;
    raise exception 'there is no topic "%" in namespace "%"', p_topic, v_namespace
        using errcode = 'HR101',
            hint = format('Create it: select headrace.create_topic(%L). Known topics: %s.', p_topic, coalesce(v_known, 'none'));
end
$$;
