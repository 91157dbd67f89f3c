-- Deletes dead letters for good.
select headrace.purge_dead_letters(%(ids)s, %(action)s, %(error)s, p_redriven => %(redriven)s, p_namespace => %(namespace)s);
