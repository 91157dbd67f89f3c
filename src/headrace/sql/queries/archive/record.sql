-- Records the files of one time partition, and names those that they replace.
select r.folder, r.file from headrace_internal.record_archive(%(topic_id)s, %(folder)s, %(files)s::jsonb) r;
