-- The ledger in the database of a target: up to which position a relay has delivered, and which dead letters it has delivered later.
-- One statement for both tables: the first alone would look like the whole ledger.
do $ledger$
begin
    create table {ledger} (
        relay text not null, uid text not null, partition integer not null, position bigint not null,
        moved_at timestamptz not null default now(), primary key (relay, uid, partition));
    create table {redriven} (
        relay text not null, uid text not null, position bigint not null, primary key (relay, uid, position));
end
$ledger$;
