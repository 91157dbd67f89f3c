-- Holds the cursors of these consumers; those that another session has are not among the answers.
-- Locks: the cursor rows, no key update, skip locked. Index: cursor_pkey.
select u.consumer_id from headrace_internal.cursor u
where u.consumer_id = any (%(consumer_ids)s) and u.partition = -1
order by u.consumer_id
for no key update skip locked;
