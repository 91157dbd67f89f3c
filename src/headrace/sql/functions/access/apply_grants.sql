-- Gives a role exactly the privileges its grants call for, and revokes all others of ours. Nobody gets usage on headrace_internal.
create or replace function headrace_internal.apply_grants(p_role regrole) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement text;
begin
    for v_statement in
        select format('revoke all on %s from %s', c.oid::regclass, p_role)
        from pg_class c
        where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
            and c.relkind in ('r', 'p', 'v', 'S')
            -- A node has rights on the partitions that there were when it got them. Most roles have none on the thousands of a log.
            and (not c.relispartition or exists (select from aclexplode(c.relacl) a where a.grantee = p_role))
        union all
        select format('revoke all on %s from %s', q.queue_table, p_role)
        from headrace_internal.namespace n cross join lateral headrace_internal.queue_tables(n.namespace) q (queue_table)
    loop
        execute v_statement;
    end loop;
    execute format('revoke all on all functions in schema headrace, headrace_internal from %s', p_role);
    execute format('revoke all on schema headrace, headrace_internal from %s', p_role);
    for v_statement in
        select format('grant usage on schema headrace to %s', p_role)
        from headrace_internal.namespace_grant g where g.role = p_role
        union
        select format('grant %s on headrace.%I to %s', t.privileges, t.relation, p_role)
        from headrace_internal.namespace_grant g cross join lateral headrace_internal.level_views(g.level) t
        where g.role = p_role
        union
        select format('grant execute on function %s to %s', f.oid::regprocedure, p_role)
        from headrace_internal.namespace_grant g
        cross join lateral headrace_internal.level_functions(g.level) n (name)
        join pg_proc f on f.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and f.proname = n.name
        where g.role = p_role
    loop
        execute v_statement;
    end loop;
    if exists (select from headrace_internal.node_role n where n.role = p_role) then
        perform headrace_internal.apply_node_grants(p_role);
    end if;
end
$$;
