-- What was handed out once more only to be buried was no attempt: the count goes back to those that were.
-- Locks: the rows. Index: q_<queue>_pkey.
update {queue} q set read_ct = least(q.read_ct, %(attempts)s) where q.msg_id = any (%(msg_ids)s::bigint[]);
