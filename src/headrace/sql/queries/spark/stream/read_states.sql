-- The states of these keys. Index: stream_state_pkey.
select s.key, s.state from headrace_internal.stream_state s
where s.stream_id = %(stream_id)s and s.correlator = %(correlator)s and s.key = any (%(keys)s::text[]);
