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
