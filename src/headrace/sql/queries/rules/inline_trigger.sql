-- The trigger of the inline rules. Locks: the outbox, share row exclusive; it waits for open publishers, with a short timeout.
create trigger outbox_inline after insert on headrace_internal.outbox
referencing new table as published for each statement execute function headrace_internal.react_inline();
