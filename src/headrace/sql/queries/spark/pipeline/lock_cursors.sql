-- Locks the cursors of these consumers and returns those it got.
-- Locks: the cursor rows, no key update, skip locked. Index: cursor_pkey.
select u.consumer_id from headrace_internal.cursor u
where u.consumer_id = any (%(consumer_ids)s) and u.partition = -1
order by u.consumer_id
for no key update skip locked;
