-- The epochs that nodes have seen, in order. A new one means that the server was failed over or restored, and that the logs may have
-- lost their newest events: what was read from the old server at the same positions may differ.
create table headrace_internal.log_epoch (
    number  integer     not null generated always as identity,
    epoch   text        not null,
    seen_at timestamptz not null default headrace.clock(),
    constraint log_epoch_pkey primary key (number),
    constraint log_epoch_once unique (epoch)
);
