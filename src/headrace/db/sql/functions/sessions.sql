-- Returns the release of headrace that last migrated this database, and the oldest release whose nodes can run on it. No row before the
-- first migration that recorded it.
create or replace function headrace.schema_release() returns table (release text, oldest_node text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select r.release, r.oldest_node from headrace_internal.release r order by r.migrated_at desc, r.release desc limit 1
$$;

-- Raises HR208 unless the transaction is READ COMMITTED. For functions that decide under a lock: above that level a statement reads
-- by the snapshot of the transaction, which may be older than the lock, and the decision would ignore what was committed between.
create or replace function headrace_internal.require_read_committed(p_function text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        raise exception '% needs a transaction at READ COMMITTED; this one is at %', p_function, upper(current_setting('transaction_isolation'))
            using errcode = 'HR208', hint = 'Begin it with: begin isolation level read committed.';
    end if;
end
$$;

-- Takes a lock of headrace until the end of the transaction; waits for it. Locks: the lock's row.
create or replace function headrace_internal.take_lock(p_name text) returns void
language plpgsql volatile
as $$
begin
    insert into headrace_internal.lock (name) values (p_name) on conflict on constraint lock_pkey do nothing;
    perform from headrace_internal.lock l where l.name = p_name for update;
end
$$;

-- True if publishers and senders of actions notify sleeping nodes. PostgreSQL refuses PREPARE TRANSACTION after a NOTIFY, and nobody
-- knows beforehand whether a transaction will be prepared. So where the server allows prepared transactions
-- (max_prepared_transactions > 0) they do not notify, and nodes poll instead. The setting headrace.notify, on or off, overrides it.
-- Nor do they while the notification queue is half full, see headrace_internal.notify. Call it only where a notification would be sent.
create or replace function headrace_internal.may_notify() returns boolean
language sql volatile
as $$
    select case pg_catalog.current_setting('headrace.notify', true) when 'on' then true when 'off' then false
        else pg_catalog.current_setting('max_prepared_transactions') = '0' end
        and pg_catalog.pg_notification_queue_usage() < 0.5::double precision
$$;

-- Notifies the nodes at commit, unless the notification queue of the server is half full. The queue is shared by all databases, every
-- role may fill it, and once it is full a transaction that has notified cannot commit. Nodes poll as well, so they find the work all
-- the same. Reading the fill also lets PostgreSQL forget what all listeners have read, so that a queue that was full empties again.
create or replace function headrace_internal.notify(p_channel text, p_payload text) returns void
language plpgsql volatile
as $$
begin
    if pg_catalog.pg_notification_queue_usage() < 0.5::double precision then
        perform pg_catalog.pg_notify(p_channel, p_payload);
    end if;
end
$$;

-- Runs a statement as a prepared statement of the session and returns its rows, so that it is planned once per session; for statements that
-- name a table that only the caller knows. p_name begins with "headrace_"; the same name always means the same statement. p_types are the
-- types of its parameters, and p_arguments their values as they would be written in a statement. A session keeps about 500 of them.
create or replace function headrace_internal.execute_prepared(p_name text, p_types text, p_statement text, p_arguments text)
returns setof record
language plpgsql volatile
as $$
declare
    v_call text := format('execute %I (%s)', p_name, p_arguments);
    v_name text;
begin
    begin
        return query execute v_call;
    exception
        -- Not prepared in this session yet (a syntax error on PostgreSQL 15); or a type in it was changed by a migration.
        when invalid_sql_statement_name or syntax_error or feature_not_supported then
            for v_name in
                select s.name from pg_prepared_statements s where s.name = p_name
                union
                (select s.name from pg_prepared_statements s where s.name ~ '^headrace_[a-z]+_' order by s.prepare_time desc offset 500)
            loop
                execute format('deallocate %I', v_name);
            end loop;
            execute format('prepare %I (%s) as %s', p_name, p_types, p_statement);
            return query execute v_call;
    end;
end
$$;
