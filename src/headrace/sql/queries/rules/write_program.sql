-- Writes or removes a program of a topic's rules.
select headrace_internal.write_program(%(topic_id)s, %(kind)s, %(checksum)s, %(program)s, %(integers)s::bigint[],
    %(numerics)s::numeric[], %(texts)s::text[], %(moments)s::timestamptz[]);
