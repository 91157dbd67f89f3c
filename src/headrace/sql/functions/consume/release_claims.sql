-- Says of claims whose transaction was rolled back that their worker lives and that no event did it, for example after a lost
-- connection. Without it the next claim would take them for lost, see headrace_internal.count_lost_claim. p_positions are where the
-- cursors stand; null: wherever.
-- Locks: the cursor rows, skip locked. Index: cursor_pkey. It writes the cursors, which is what headrace_internal.is_claim_lost looks at.
create or replace function headrace.release_claims(
    p_consumer_id bigint, p_partitions integer[], p_positions bigint[], p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    update headrace_internal.cursor c set moved_at = c.moved_at
    where (c.consumer_id, c.partition) in (
        select u.consumer_id, u.partition
        from unnest(p_partitions, p_positions) p (partition, position)
        join headrace_internal.cursor u on u.consumer_id = p_consumer_id and u.partition = p.partition
        where u.position = coalesce(p.position, u.position)
        for no key update of u skip locked);
end
$$;
