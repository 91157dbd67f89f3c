-- Inserts or updates the states of keys. Index: stream_state_pkey.
insert into headrace_internal.stream_state (stream_id, correlator, key, deadline, state)
select %(stream_id)s, %(correlator)s, n.key, n.deadline, n.state
from unnest(%(keys)s::text[], %(deadlines)s::bigint[], %(states)s::text[]) n (key, deadline, state)
on conflict on constraint stream_state_pkey do update set deadline = excluded.deadline, state = excluded.state;
