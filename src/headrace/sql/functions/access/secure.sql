-- Brings all rights up to date; the migrator calls it after every change. Nothing is executable by PUBLIC; policies guard the
-- tables; views run with the reader's rights; roles have what their grants call for.
-- Policies that are up to date are left alone, so that an upgrade of functions locks no table.
create or replace function headrace_internal.secure() returns void
language plpgsql volatile
as $$
declare
    v_policy    record;
    v_statement text;
    v_role      regrole;
begin
    revoke execute on all functions in schema headrace, headrace_internal from public;
    for v_policy in
        select w.command || 's' as name, format('headrace.%I', w.relation)::regclass as relation, w.command, w.definition,
            md5(w.definition) as checksum
        from headrace_internal.wanted_policies() w
    loop
        continue when v_policy.checksum = (
            select obj_description(p.oid, 'pg_policy') from pg_policy p
            where p.polrelid = v_policy.relation and p.polname = v_policy.name);
        execute format('drop policy if exists %I on %s', v_policy.name, v_policy.relation);
        execute format('create policy %I on %s for %s %s', v_policy.name, v_policy.relation, v_policy.command, v_policy.definition);
        execute format('comment on policy %I on %s is %L', v_policy.name, v_policy.relation, v_policy.checksum);
        execute format('alter table %s enable row level security', v_policy.relation);
    end loop;
    for v_statement in
        select format('drop policy %I on %s', p.polname, p.polrelid::regclass)
        from pg_policy p
        join pg_class c on c.oid = p.polrelid and c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace)
        where not exists (
            select from headrace_internal.wanted_policies() w where w.relation = c.relname and w.command || 's' = p.polname)
        union all
        select format('alter view %s set (security_invoker = true)', c.oid::regclass)
        from pg_class c
        where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and c.relkind = 'v'
            and not coalesce(c.reloptions @> '{security_invoker=true}', false)
    loop
        execute v_statement;
    end loop;
    for v_role in
        select distinct g.role from headrace.namespace_grant g join pg_roles r on r.oid = g.role
    loop
        perform headrace_internal.apply_grants(v_role);
    end loop;
end
$$;
