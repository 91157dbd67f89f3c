-- Records that a release has migrated the database.
insert into headrace_internal.release (release, oldest_node) values (%(release)s, %(oldest_node)s)
on conflict on constraint release_pkey do update set oldest_node = excluded.oldest_node, migrated_at = statement_timestamp();
