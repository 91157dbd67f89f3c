-- Changes with every erasure, which deletes states without moving a cursor or a stream. Index: erasure_pkey.
select count(*), max(e.erasure_id) from headrace_internal.erasure e;
