-- Ends a redrive: handled (p_error is null), and the events behind it follow, also those that a batch in flight held back after the
-- redrive was asked for; discarded by the handler (p_discard), and they follow too; or dead again together with the events that wait
-- behind it. The error is recorded
-- after the handler's transaction was rolled back, so a letter that another node has ended meanwhile is left alone.
-- Locks: the letter, for update, and the letters behind it. Index: dead_letter_held. Calls: headrace_internal.release_behind.
create or replace function headrace.end_redrive(
    p_dead_letter_id bigint, p_error text, p_traceback text default null, p_discard boolean default false,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'dead letter', p_dead_letter_id);
    if p_error is null or p_discard then
        -- Waits for batches of other partitions that hold events back behind this letter; see headrace.hold_back.
        perform from headrace_internal.dead_letter d where d.dead_letter_id = p_dead_letter_id for update;
        update headrace_internal.dead_letter d
        set state = case when p_discard then 'discarded' else 'redriven' end, ended_at = headrace.clock(), attempts = d.attempts + 1,
            reason = case when p_discard then 'handler discarded it' else d.reason end,
            error = coalesce(left(p_error, 2000), d.error), traceback = coalesce(left(p_traceback, 20000), d.traceback)
        where d.dead_letter_id = p_dead_letter_id and (not p_discard or d.state = 'redrive');
        perform headrace_internal.release_behind(d.consumer_id, array[d.key])
        from headrace_internal.dead_letter d where d.dead_letter_id = p_dead_letter_id;
        return;
    end if;
    update headrace_internal.dead_letter d
    set state = 'dead', reason = 'handler failed again', error = left(p_error, 2000), traceback = left(p_traceback, 20000),
        attempts = d.attempts + 1
    where d.dead_letter_id = p_dead_letter_id and d.state = 'redrive';
    if not found then
        return;
    end if;
    update headrace_internal.dead_letter b set state = 'behind'
    from headrace_internal.dead_letter d
    where d.dead_letter_id = p_dead_letter_id and b.consumer_id = d.consumer_id and b.key = d.key
        and b.position > d.position and b.state = 'redrive';
end
$$;
