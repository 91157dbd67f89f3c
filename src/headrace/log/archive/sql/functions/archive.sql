-- Records files of a topic, each with days of one month, named by the first: [{day, first_position, last_position, first_at, last_at, events, checksum, file,
-- file_bytes}, …]. Earlier entries for these positions are replaced and returned: nobody needs their files any more.
-- Index: archive_position.
-- A file's name follows from its topic, month, positions and checksum; any other name raises HR300, so that the catalog cannot lead a
-- reader or the archiver to a foreign file. headrace.archive writes the same names: see archive/files.py.
create or replace function headrace.record_archive(
    p_topic_id integer, p_folder text, p_files jsonb, p_caller headrace_internal.caller default current_user
) returns table (folder text, file text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
        where f.file is distinct from format('%s%s/%s-%s-%s.parquet', v_prefix, to_char(f.day, 'YYYY-MM'),
            lpad(f.first_position::text, greatest(12, length(f.first_position::text)), '0'),
            lpad(f.last_position::text, greatest(12, length(f.last_position::text)), '0'),
            lpad(to_hex(mod(f.checksum, 4294967296)::bigint), 8, '0'))
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

-- Does the archive hold these positions, both included, without a gap? True for an empty range (null). Index: archive_position.
create or replace function headrace.is_archived(
    p_topic_id integer, p_first bigint, p_last bigint, p_caller headrace_internal.caller default current_user
) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    -- Files do not overlap, so it is enough to count.
    select p_last is null or coalesce(sum(least(a.last_position, p_last) - greatest(a.first_position, p_first) + 1), 0) = p_last - p_first + 1
    from headrace_internal.archive a
    where a.topic_id = p_topic_id and a.first_position <= p_last and a.last_position >= p_first
$$;

-- Returns the first position of the archive from which it reaches the log without a gap; null if it does not reach the log, or if the log
-- holds everything. Index: archive_position.
create or replace function headrace.archived_from(
    p_topic_id integer, p_dropped_to bigint, p_caller headrace_internal.caller default current_user
) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select max(f.first_position) filter (where f.begins)
    from (
        select a.first_position, a.last_position,
            lag(a.last_position) over (order by a.first_position) is distinct from a.first_position - 1 as begins
        from headrace_internal.archive a
        where a.topic_id = p_topic_id and a.first_position <= p_dropped_to
    ) f
    having max(f.last_position) >= p_dropped_to
$$;

-- Sets whether a topic's retention waits for the archive. Locks: the topic row.
-- Calls: topic_id.
create or replace function headrace.keep_until_archived(
    p_topic text, p_archive boolean, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize(p_caller, 'admin', p_namespace, p_topic);
    update headrace_internal.topic t set archive = p_archive where t.topic_id = headrace.topic_id(p_topic, p_namespace);
$$;

-- Erasures that still have to be done in files of a topic's archive. Takes the level admin. Index: erasure_pending_topic.
create or replace function headrace.pending_erasures(p_topic_id integer, p_caller headrace_internal.caller default current_user)
returns table (erasure_id bigint, event_ids uuid[])
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    select p.erasure_id, p.event_ids from headrace_internal.erasure_pending p where p.topic_id = p_topic_id order by p.erasure_id
$$;

-- Records that an erasure is done in the files of a topic's archive, with the number of events in them. Takes the level admin.
-- Calls: count_erased.
create or replace function headrace.end_erasure(
    p_erasure_id bigint, p_topic_id integer, p_events bigint, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    delete from headrace_internal.erasure_pending p where p.erasure_id = p_erasure_id and p.topic_id = p_topic_id;
    if found then
        perform headrace_internal.count_erased(p_erasure_id, 'archive', p_events);
    end if;
end
$$;

-- Records that VACUUM has removed the old row versions of an erasure from some tables. Takes the level admin: to everybody else
-- there is no such erasure (HR100). Locks: the erasure's row. Index: erasure_pkey.
create or replace function headrace.end_vacuum(
    p_erasure_id bigint, p_tables text[], p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'admin');
begin
    update headrace_internal.erasure e
    set tables = array(select t.name from unnest(e.tables) t (name) where t.name <> all (p_tables))
    where e.erasure_id = p_erasure_id and e.namespace = any (v_namespaces);
    if not found then
        raise exception 'there is no erasure %', p_erasure_id using errcode = 'HR100', hint = 'See: headrace topic erasures.';
    end if;
end
$$;
