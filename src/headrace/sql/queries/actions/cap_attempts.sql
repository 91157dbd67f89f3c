-- A claim made only to bury an action is no attempt: sets the count back to the attempts that were made.
-- Locks: the rows. Index: q_<queue>_pkey.
update {queue} q set read_ct = least(q.read_ct, %(attempts)s) where q.msg_id = any (%(msg_ids)s::bigint[]);
