-- One shard in a row: the server's version, the schema's release, the number of topics, the size of the database.
-- Reads the public views and the catalog only.
select current_setting('server_version') as server, (select r.release from headrace.schema_release() r) as release,
    (select count(*) from headrace.topic t where t.namespace = headrace.current_namespace(%(namespace)s)) as topics,
    pg_database_size(current_database()) as bytes;
