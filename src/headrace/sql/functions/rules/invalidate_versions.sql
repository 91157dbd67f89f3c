-- Marks active versions whose program the compiler or the server rejects as invalid: they are not evaluated any more, and the other
-- rules go on. p_same_shape: all versions of their shapes, since these have the same program. Runs in the transaction that began the compilation. Locks: the rule rows, skip locked: a row that is being written gets
-- a new version anyway. Indexes: rule_version_pkey, rule_match_pkey.
create or replace function headrace_internal.invalidate_versions(p_version_ids bigint[], p_error text, p_position bigint, p_same_shape boolean) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_same_shape then
        select array_agg(m.version_id) into p_version_ids
        from headrace_internal.rule_match m
        where m.shape_id in (select k.shape_id from headrace_internal.rule_match k where k.version_id = any (p_version_ids));
    end if;
    delete from headrace_internal.rule_match m where m.version_id = any (p_version_ids);
    update headrace_internal.rule_version v
    set status = 'invalid', error = p_error, until_position = p_position, until_at = headrace.clock()
    where v.version_id = any (p_version_ids);
    update headrace_internal.rule r set status = 'invalid', error = p_error
    from headrace_internal.rule_version v
    where v.version_id = any (p_version_ids) and r.rule_id = v.rule_id and r.version = v.version and r.rule_id in (
        select k.rule_id from headrace_internal.rule k
        where k.rule_id in (select w.rule_id from headrace_internal.rule_version w where w.version_id = any (p_version_ids))
        for no key update skip locked);
end
$$;
