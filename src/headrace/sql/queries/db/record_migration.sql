-- Records an applied step, again if the text of its file has changed.
insert into headrace_internal.migration (name, checksum) values (%(name)s, %(checksum)s)
on conflict on constraint migration_pkey do update set checksum = excluded.checksum, applied_at = statement_timestamp();
