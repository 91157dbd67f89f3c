-- Raises HR101, naming the topics that are there.
create or replace function headrace_internal.raise_unknown_topic(p_topic text, p_namespace text) returns void
language plpgsql stable
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_known     text;
begin
    select string_agg(t.topic, ', ' order by t.topic) into v_known
    from (select topic from headrace.topic where namespace = v_namespace order by topic limit 10) t;
    raise exception 'there is no topic "%" in namespace "%"', p_topic, v_namespace
        using errcode = 'HR101',
            hint = format('Create it: select headrace.create_topic(%L). Known topics: %s.', p_topic, coalesce(v_known, 'none'));
end
$$;
