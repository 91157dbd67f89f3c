-- Marks a version that does not become active: invalid (with its error), not active, already replaced, or a deletion.
create or replace function headrace_internal.mark_correlator(
    p_version_id bigint, p_error text, p_canonical text, p_warning text
) returns void
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    update headrace_internal.correlator_version v
    set status = case when p_error is null then 'valid' else 'invalid' end, error = p_error, canonical = p_canonical, warning = p_warning
    where v.version_id = p_version_id
$$;
