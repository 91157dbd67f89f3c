-- The symbols of a correlator's events after p_after up to p_upto. A template: what is filled in comes from our own trees and names,
-- never from a user's text. A plain SQL function, so that it becomes a part of the statement that calls it. Index: log_position.
create or replace function headrace_internal.{function}(p_after bigint, p_upto bigint)
returns table ("position" bigint, key text, symbol integer, symbols integer[], appended_at timestamptz)
language sql stable
as {body};
revoke execute on function headrace_internal.{function}(bigint, bigint) from public;
