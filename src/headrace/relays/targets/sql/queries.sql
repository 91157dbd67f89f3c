-- name: create_ledger
-- Creates the ledger in the database of a target: up to which position a relay has delivered, and which dead letters it has delivered later.
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

-- name: lock_ledger
-- Selects the position up to which a relay has delivered a partition. Locks the row: a second node waits, and then sees what the first has done.
insert into {ledger} as l (relay, uid, partition, position) values (%(relay)s, %(uid)s, %(partition)s, 0)
on conflict (relay, uid, partition) do update set position = l.position
returning l.position;

-- name: move_ledger
-- Records up to which position a relay has delivered a partition.
update {ledger} set position = %(position)s, moved_at = now()
where relay = %(relay)s and uid = %(uid)s and partition = %(partition)s;

-- name: record_redriven
-- Records that a dead letter is delivered. No row if it was delivered before.
insert into {redriven} (relay, uid, position) values (%(relay)s, %(uid)s, %(position)s) on conflict do nothing;
