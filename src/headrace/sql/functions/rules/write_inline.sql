-- Creates the trigger function of the inline rules from the programs of all topics, and the trigger; drops both when there are none:
-- without inline rules a publisher pays nothing for them. p_changed: a program has changed; without it only a function that no program
-- needs any more is dropped.
-- Each topic has a statement of its own, planned when its first event comes: a topic never fails for the program of another. An
-- evaluation that fails is undone alone (it only reads), and its events are evaluated after the log: the publisher goes on.
-- Every role may read the function. Its text has operators and numbers; constants and names are in headrace_internal.rule_program. A
-- publisher whose snapshot is older than the program does not see them, and its events are evaluated after the log too.
-- Locks: rule_program, share update exclusive, so that one compiler at a time writes the function. The outbox, share row exclusive, to
-- create the trigger, and access exclusive to drop it: it waits for open publishers, less than the server's deadlock timeout.
create or replace function headrace_internal.write_inline(p_changed boolean) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
    v_topics   text;
    v_branches text;
begin
    if not p_changed and (to_regprocedure('headrace_internal.react_inline()') is null
            or exists (select from headrace_internal.rule_program p where p.kind = 'inline')) then
        return;
    end if;
    lock table headrace_internal.rule_program in share update exclusive mode;
    select string_agg(p.topic_id::text, ', ' order by p.topic_id), string_agg(format(
        $branch$when %1$s then
                select c.integers, c.numerics, c.texts, c.moments into strict v_integers, v_numerics, v_texts, v_moments
                from headrace_internal.rule_program c where c.topic_id = %1$s and c.kind = 'inline' and c.checksum = %2$L;
                select array_agg(f.id order by f.id, f.version_id) as ids, array_agg(f.version_id order by f.id, f.version_id) as versions
                into v_found from (%3$s) f
                -- An event that is in the log already was published again: it is not a new event.
                where not exists (select from headrace_internal.%4$I l where l.event_id = f.event_id);
            $branch$, p.topic_id, p.checksum, p.program, 'log_' || p.topic_id), '' order by p.topic_id)
    into v_topics, v_branches
    from headrace_internal.rule_program p where p.kind = 'inline';
    if v_topics is null then
        drop function if exists headrace_internal.react_inline() cascade;
        return;
    end if;
    execute format($create$
create or replace function headrace_internal.react_inline() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $react$
-- Written by headrace_internal.write_inline. Runs as the owner, since a publisher may publish but not fire.
declare
    v_topic_id integer;
    v_integers bigint[];
    v_numerics numeric[];
    v_texts    text[];
    v_moments  timestamptz[];
    v_found    record;
    v_hits     headrace_internal.rule_hit[];
begin
    for v_topic_id in select distinct p.topic_id from published p where p.topic_id in (%1$s) loop
        begin
            case v_topic_id
            %2$send case;
        exception
            when others then
                if not headrace_internal.is_program_error(sqlstate) then
                    raise;
                end if;
                insert into headrace_internal.inline_failure (topic_id, event_id, error)
                select p.topic_id, p.event_id, sqlerrm from published p where p.topic_id = v_topic_id;
                continue;
        end;
        continue when v_found.ids is null;
        -- In pieces: an array ends at 1 GB, and a payload may have 1 MB. The ids are in order, so that width_bucket can search them.
        for v_hits in
            select array_agg(h.hit order by h.n)
            from (
                select row((v_found.versions)[i.i], null, p.event_id, p.type, p.key, p.payload, p.emitted_at, p.producer,
                    headrace_internal.trace_headers(p.headers))::headrace_internal.rule_hit as hit,
                    row_number() over (order by p.id, i.i) as n
                from published p
                cross join lateral generate_series(width_bucket(p.id - 1, v_found.ids) + 1, width_bucket(p.id, v_found.ids)) i (i)
                where p.topic_id = v_topic_id
            ) h
            group by h.n / 500
        loop
            perform headrace_internal.fire(v_topic_id, v_hits);
        end loop;
    end loop;
    return null;
end
$react$
$create$, v_topics, v_branches);
    revoke execute on function headrace_internal.react_inline() from public;
    if not exists (select from pg_trigger t where t.tgrelid = 'headrace_internal.outbox'::regclass and t.tgname = 'outbox_inline') then
        create trigger outbox_inline after insert on headrace_internal.outbox
        referencing new table as published for each statement execute function headrace_internal.react_inline();
    end if;
end
$$;
