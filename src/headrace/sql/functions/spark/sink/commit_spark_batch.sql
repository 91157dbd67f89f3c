-- Commits a batch of a Spark query: its staged rows become events (those with a topic) and actions, in the order of p_tokens and
-- places, in one transaction with the row that records the batch. Returns false, and writes nothing, if that row exists already.
-- Raises HR200 when staged rows are missing, or when the batch was committed before with another number of rows.
-- Locks: the new row of spark_batch, for which a second commit of the same batch waits. Indexes: spark_batch_pkey,
-- spark_stage_order.
create or replace function headrace.commit_spark_batch(
    p_query     text,
    p_batch     bigint,
    p_tokens    uuid[],
    p_rows      bigint,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace);
    v_before    bigint;
    v_fresh     boolean;
begin
    insert into headrace_internal.spark_batch (namespace, query, batch, rows) values (v_namespace, p_query, p_batch, p_rows)
    on conflict on constraint spark_batch_pkey do nothing;
    v_fresh := found;
    if v_fresh then
        perform headrace_internal.publish_stage(v_namespace, p_query, p_batch, p_tokens, p_rows);
    else
        select b.rows into v_before
        from headrace_internal.spark_batch b where b.namespace = v_namespace and b.query = p_query and b.batch = p_batch;
        if v_before <> p_rows then
            raise exception 'batch % of Spark query "%" was written with % rows, and comes again with %', p_batch, p_query, v_before, p_rows
                using errcode = 'HR200', hint = 'Its checkpoint has gone back, or the query gives other rows each time: '
                    'start it with a new checkpoint from the offsets you want.';
        end if;
    end if;
    -- Failed or superseded attempts have left rows, of this batch or earlier; those of dead writers are kept for a week.
    delete from headrace_internal.spark_stage s
    where s.namespace = v_namespace and s.query = p_query and s.batch <= p_batch;
    delete from headrace_internal.spark_stage s
    where s.namespace = v_namespace and s.staged_at < headrace.clock() - interval '7 days';
    -- Spark repeats only its last batch; the margin is for a checkpoint restored by hand.
    delete from headrace_internal.spark_batch b
    where b.namespace = v_namespace and b.query = p_query and b.batch < p_batch - 1000;
    return v_fresh;
end
$$;
