-- Deletes the rows that the attempts of a failed Spark batch have staged. Takes the level publish. Index: spark_stage_order.
create or replace function headrace.drop_staged_rows(
    p_query text, p_batch bigint, p_tokens uuid[], p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace);
begin
    delete from headrace_internal.spark_stage s
    where s.namespace = v_namespace and s.query = p_query and s.batch = p_batch and s.token = any (p_tokens);
end
$$;
