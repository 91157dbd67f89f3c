-- Records the files of one time partition.
select headrace.record_archive(%(topic_id)s, %(folder)s, %(files)s::jsonb);
