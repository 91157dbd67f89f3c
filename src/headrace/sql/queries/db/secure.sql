-- Brings rights and policies up to date with the tables and functions that are there.
select headrace_internal.secure();
