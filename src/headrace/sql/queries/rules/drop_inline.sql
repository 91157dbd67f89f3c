-- Drops the trigger too: without inline rules a publisher pays nothing for them. Locks: the outbox, access exclusive.
drop function if exists headrace_internal.react_inline() cascade;
