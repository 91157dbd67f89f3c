-- The claimed events that are dead letters already, or wait behind one. Index: dead_letter_once.
select d.position from headrace.dead_letter d
where d.consumer_id = %(consumer_id)s and d.position > %(position)s and d.position <= %(upto)s
    and d.state in ('dead', 'behind', 'redrive');
