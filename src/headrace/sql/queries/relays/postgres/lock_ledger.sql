-- The position up to which a relay has delivered a partition. Locks the row: a second node waits, and then sees what the first has done.
insert into {ledger} as l (relay, log, partition, position) values (%(relay)s, %(log)s, %(partition)s, 0)
on conflict (relay, log, partition) do update set position = l.position
returning l.position;
