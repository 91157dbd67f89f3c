-- Notifies the sleeping sequencers at commit that a topic has an event, unless an event of it waits already: its publisher has notified
-- them. Always true. A NOTIFY makes the commits of the whole cluster wait for each other; where no sequencer runs, topics stay asleep,
-- and without this limit every publisher would send one. Whoever commits at the same time may notify, too.
-- The oldest waiting event decides. One of this transaction is none: it was written before its topic was found asleep, or it
-- goes with the savepoint that has notified. Above read committed, an older snapshot may show an event that is in the log by now.
-- Where transactions may be prepared it does not notify at all, see headrace_internal.may_notify: the sequencer polls there.
-- Locks nothing: whoever publishes, or holds any lock, delays no publisher of another topic. Index: outbox_order.
create or replace function headrace_internal.wake_sequencer(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_xid xid;
begin
    if headrace_internal.may_notify() then
        select o.xmin into v_xid from headrace_internal.outbox o where o.topic_id = p_topic_id order by o.topic_id, o.id limit 1;
        if v_xid is null or headrace_internal.transaction_status(v_xid) is distinct from 'committed'
            or pg_catalog.current_setting('transaction_isolation') <> 'read committed' then
            perform pg_catalog.pg_notify('headrace_outbox', '');
        end if;
    end if;
    return true;
end
$$;
