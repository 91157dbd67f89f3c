-- Raises 42501 for a topic whose name starts with "headrace." unless the caller is above namespaces: the topic of the console's audit is
-- written, changed and dropped by nobody else. Without a caller it raises for everybody: nothing that a user defines publishes there.
-- Only for functions that run as the owner, see headrace_internal.above_namespaces.
create or replace function headrace_internal.refuse_reserved_topic(p_topic text, p_caller name default null) returns void
language plpgsql stable
as $$
begin
    if p_topic like 'headrace.%' and (p_caller is null or headrace_internal.above_namespaces(p_caller) is not true) then
        raise exception 'topic "%" is reserved: names that start with "headrace." belong to headrace', p_topic
            using errcode = '42501', hint = 'Choose another topic.';
    end if;
end
$$;
