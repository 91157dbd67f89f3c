-- The demo's own tables, as an application has them: outside the schema headrace.
create table airport (
    airport    text   not null primary key,
    departures bigint not null default 0,
    arrivals   bigint not null default 0,
    cancelled  bigint not null default 0,
    delay_min  bigint not null default 0
) with (fillfactor = 50);
create table handled_batch (
    partition      integer     not null,
    first_position bigint      not null,
    last_position  bigint      not null,
    events         integer     not null,
    handled_at     timestamptz not null default clock_timestamp()
);
create table notice (
    position   bigint      not null primary key,
    tailnum    text,
    origin     text        not null,
    dest       text        not null,
    delay_min  integer     not null,
    created_at timestamptz not null default clock_timestamp()
);
create table care (
    action_id uuid        not null primary key,
    action    text        not null,
    flight    text        not null,
    dest      text        not null,
    delay_min integer,
    done_at   timestamptz not null default clock_timestamp()
);
create table dispatch (
    action_id uuid        not null primary key,
    action    text        not null,
    key       text        not null,
    done_at   timestamptz not null default clock_timestamp()
);
