-- The table that a relay to another PostgreSQL fills.
create table public.orders_copy (
    seq bigint generated always as identity primary key,
    partition int not null,
    position bigint not null,
    event_id text not null
);
