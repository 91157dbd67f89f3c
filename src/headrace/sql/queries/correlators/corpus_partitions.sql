-- The time partitions of a log.
select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = %(log)s::regclass;
