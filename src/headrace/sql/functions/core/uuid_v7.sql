-- A new event id: uuid version 7, so that ids rise with time and index pages stay in memory.
-- PostgreSQL 18 has its own function; before that, the first 48 bits of a random uuid become the milliseconds.
do $do$
begin
    if current_setting('server_version_num')::integer >= 180000 then
        create or replace function headrace.uuid_v7() returns uuid
        language sql volatile parallel safe
        as 'select pg_catalog.uuidv7()';
    else
        create or replace function headrace.uuid_v7() returns uuid
        language sql volatile parallel safe
        as $$
            select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
                placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
        $$;
    end if;
end
$do$;
