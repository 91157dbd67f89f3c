-- The claimed events that are dead letters already, or wait behind one. Index: dead_letter_once.
-- Operators are qualified: this runs on a handler's connection, under whatever search_path its database has.
select d.position from headrace.dead_letter d
where d.consumer_id operator(pg_catalog.=) %(consumer_id)s
    and d.position operator(pg_catalog.>) %(position)s and d.position operator(pg_catalog.<=) %(upto)s
    and d.state operator(pg_catalog.=) any (array['dead', 'behind', 'redrive']);
