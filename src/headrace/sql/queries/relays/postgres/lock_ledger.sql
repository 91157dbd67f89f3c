-- The position up to which a relay has delivered a partition. Locks the row: a second node waits, and then sees what the first has done.
insert into {ledger} as l (relay, uid, partition, position) values (%(relay)s, %(uid)s, %(partition)s, 0)
on conflict (relay, uid, partition) do update set position = l.position
returning l.position;
