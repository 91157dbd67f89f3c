-- Updates rights and policies for the tables and functions that exist.
select headrace_internal.secure();
