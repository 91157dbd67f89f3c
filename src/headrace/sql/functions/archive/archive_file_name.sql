-- The name of an archive file within the folder of its month. headrace.archive writes the same names: see archive/files.py.
create or replace function headrace_internal.archive_file_name(p_first bigint, p_last bigint, p_checksum numeric) returns text
language sql immutable
return format('%s-%s-%s.parquet',
    repeat('0', greatest(12 - length(p_first::text), 0)) || p_first,
    repeat('0', greatest(12 - length(p_last::text), 0)) || p_last,
    lpad(to_hex(mod(p_checksum, 4294967296)::bigint), 8, '0'));
