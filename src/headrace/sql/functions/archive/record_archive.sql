-- Records files of a topic, each with days of one month, named by the first: [{day, first_position, last_position, first_at, last_at, events, checksum, file,
-- file_bytes}, …]. Earlier entries for these positions are replaced and returned: nobody needs their files any more.
-- Index: archive_position.
-- A file's name follows from its topic, month, positions and checksum; any other name raises HR300, so that the catalog cannot lead a
-- reader or the archiver to a foreign file.
create or replace function headrace.record_archive(
    p_topic_id integer, p_folder text, p_files jsonb, p_caller headrace_internal.caller default current_user
) returns table (folder text, file text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_prefix text;
    v_wrong text;
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    if p_folder is null or p_folder !~ '^/' or p_folder ~ '(^|/)[.][.](/|$)' or p_folder ~ '[[:cntrl:]]' then
        raise exception 'the archive folder must be an absolute path without ".."'
            using errcode = 'HR300', hint = 'Archive with "headrace archive", which records the folder that it writes to.';
    end if;
    v_prefix := (
        select format('namespace=%s/topic=%s/month=', t.namespace, t.topic) from headrace_internal.topic t where t.topic_id = p_topic_id);
    v_wrong := (
        select coalesce(f.file, '(none)')
        from jsonb_to_recordset(p_files) f (day date, first_position bigint, last_position bigint, checksum numeric, file text)
        where f.file is distinct from v_prefix || to_char(f.day, 'YYYY-MM') || '/'
            || headrace_internal.archive_file_name(f.first_position, f.last_position, f.checksum)
        limit 1);
    if v_wrong is not null then
        raise exception 'the archive file % is not named after its topic, month, positions and checksum', quote_literal(left(v_wrong, 200))
            using errcode = 'HR300', hint = 'Archive with "headrace archive", which names the files.';
    end if;
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
