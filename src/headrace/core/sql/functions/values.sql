-- Returns the time of the one clock. Stable, so that indexes can use it; tests move it by the setting headrace.clock_shift.
create or replace function headrace.clock() returns timestamptz
language sql stable parallel safe
as $$
    select pg_catalog.statement_timestamp() + coalesce(nullif(pg_catalog.current_setting('headrace.clock_shift', true), '')::interval, interval '0')
$$;

-- Returns the namespace of a call: the given one, else the setting headrace_internal.namespace, else 'default'.
create or replace function headrace.current_namespace(p_namespace text default null) returns text
language sql stable parallel safe
as $$
    select coalesce(p_namespace, nullif(pg_catalog.current_setting('headrace.namespace', true), ''), 'default')
$$;

-- Returns the nearest time within the limits. Not strict, so that PostgreSQL inlines it instead of calling it for every row.
create or replace function headrace_internal.clamp_time(p_time timestamptz) returns timestamptz
language sql immutable parallel safe
as $$
    select greatest(timestamptz '0001-01-02 00:00:00+00', least(timestamptz '9999-12-30 23:59:59.999999+00', p_time))
$$;

-- A new event id: uuid version 7, so that ids rise with time and index pages stay in memory.
-- PostgreSQL 18 has its own function; before that, the first 48 bits of a random uuid become the milliseconds.
-- A server built without OpenSSL, such as the embedded one, opens /dev/urandom for every random uuid, which takes longer than the rest
-- of the id. There the id has 48 bits of milliseconds, 12 bits of their fraction, and 62 bits of random(), whose generator each session
-- seeds from the same source. The number of the process keeps sessions apart that a setseed() has given the same seed, and the
-- fraction, 0.24 µs, the ids of one session. In hexadecimal digits: 12 of the milliseconds, of which the first is 0 until the year 2527,
-- the version, 3 of the fraction, 16 of random(). See docs/adr/0054.
-- Runs with the search_path of the session, as a pinned one would cost every event: see docs/adr/0080.
do $do$
begin
    if current_setting('server_version_num')::integer >= 170000 and current_setting('ssl_library') = '' then
        create or replace function headrace.uuid_v7() returns uuid
        language sql volatile parallel restricted
        return ('0' || overlay(to_hex((date_part('epoch', clock_timestamp()) * 4096000)::bigint) placing '7' from 12 for 0)
            || to_hex(random(-9223372036854775808, -4611686018427387905) # (pg_backend_pid()::bigint << 20)))::uuid;
    elsif current_setting('server_version_num')::integer >= 180000 then
        create or replace function headrace.uuid_v7() returns uuid
        language sql volatile parallel safe
        as 'select pg_catalog.uuidv7()';
    else
        create or replace function headrace.uuid_v7() returns uuid
        language sql volatile parallel safe
        as $$
            select pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
                placing substring(pg_catalog.int8send((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())
                    * 1000::double precision)::bigint) from 3)
                from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
        $$;
    end if;
end
$do$;

-- Returns the hash of a key, 0 to 2^32 - 1: the first four bytes of SHA-256 of its UTF-8. The same in Python and Spark and on every
-- PostgreSQL version; partitions and shards depend on it. Stable, not immutable, so that it is inlined.
create or replace function headrace_internal.key_hash(p_key text) returns bigint
language sql stable strict parallel safe
as $$
    select ('x' || pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p_key, 'UTF8')), 'hex'), 8))::bit(32)::bigint
$$;

-- Returns a uuid of version 8 from the md5 of a text: the id of an action or event that follows from what caused it, the same wherever it
-- is computed. Every part is immutable, so that PostgreSQL inlines the function.
create or replace function headrace_internal.hash_id(p_text text) returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(p_text) placing '8' from 13) placing '8' from 17)::uuid
$$;

-- Returns which table of the outbox to write to: each of the 3 is written for 4 seconds, then rests for 8. By the server's own time, not by
-- headrace.clock(), which costs a publisher more. A publisher may choose another one, by a clock of its own: nothing is lost, it
-- may only wait for a moment while headrace_internal.trim_outbox truncates that table. An INSERT into headrace.event_<slot> names it.
create or replace function headrace.outbox_slot(p_at timestamptz default statement_timestamp()) returns integer
language sql stable parallel safe
as $$
    select (pg_catalog.date_part('epoch', p_at)::bigint / 4 % 3::bigint)::integer
$$;

-- Returns the common part of similar errors: the first line, with numbers and quoted parts replaced.
-- Names are qualified: a view calls it under the reader's search_path.
create or replace function headrace_internal.error_group(p_error text) returns text
language sql immutable parallel safe
as $$
    select pg_catalog.left(pg_catalog.regexp_replace(pg_catalog.regexp_replace(pg_catalog.split_part(p_error, E'\n', 1),
        '''[^'']*''|"[^"]*"', '…', 'g'), '[0-9]+', '#', 'g'), 200)
$$;

-- Returns the W3C trace context of headers, for what an event causes: traceparent, tracestate and the links of a correlator. Null if there is
-- none or it is malformed. For events without one it costs one look at the headers.
-- It is written in SQL and without "set", so that it is inlined. The form is the same as in headrace/tracing/context.py.
create or replace function headrace_internal.trace_headers(p_headers jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select case when p_headers ? 'traceparent' then
        case when p_headers ->> 'traceparent' ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,200})?$' then
            jsonb_build_object('traceparent', p_headers ->> 'traceparent')
            || case when jsonb_typeof(p_headers -> 'tracestate') = 'string' and char_length(p_headers ->> 'tracestate') <= 512
                then jsonb_build_object('tracestate', p_headers -> 'tracestate') else '{}' end
            || case when jsonb_typeof(p_headers -> 'tracelinks') = 'array' and pg_column_size(p_headers -> 'tracelinks') <= 8192
                then jsonb_build_object('tracelinks', p_headers -> 'tracelinks') else '{}' end
        end
    end
$$;

-- What became of the transaction in a system column of a row: of xmin, which wrote it, or of xmax, which locked it last. 'committed',
-- 'aborted' or 'in progress'; null for 0, and for one so old that nobody knows. Locks nothing.
create or replace function headrace_internal.transaction_status(p_xid xid) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- The newest transaction with these 32 bits.
    v_xid  bigint := v_next - ((v_next - p_xid::text::bigint) & 4294967295);
begin
    return case when p_xid <> 0 and v_xid between 3 and v_next - 1 then pg_xact_status(v_xid::text::xid8) end;
end
$$;
