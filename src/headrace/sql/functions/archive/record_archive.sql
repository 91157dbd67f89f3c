-- Records the files of one time partition: [{day, first_position, last_position, first_at, last_at, events, checksum, file,
-- file_bytes}, …]. Earlier entries for these positions are replaced and returned: nobody needs their files, since the log has the
-- positions. Index: archive_position.
create or replace function headrace.record_archive(
    p_topic_id integer, p_folder text, p_files jsonb, p_caller headrace_internal.caller default current_user
) returns table (folder text, file text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    return query
    delete from headrace_internal.archive a
    using jsonb_to_recordset(p_files) f (first_position bigint, last_position bigint)
    where a.topic_id = p_topic_id and a.first_position <= f.last_position and a.last_position >= f.first_position
    returning a.folder, a.file;
    insert into headrace_internal.archive
        (topic_id, day, first_position, last_position, first_at, last_at, events, checksum, folder, file, file_bytes)
    select p_topic_id, f.day, f.first_position, f.last_position, f.first_at, f.last_at, f.events, f.checksum, p_folder, f.file, f.file_bytes
    from jsonb_to_recordset(p_files) f (day date, first_position bigint, last_position bigint, first_at timestamptz,
        last_at timestamptz, events bigint, checksum numeric, file text, file_bytes bigint);
end
$$;
