-- One step of a simple table: from the cell before (null: this is the key's first event here) to the cell of this event.
-- p_rows: where the row of the next state begins, by cell; p_start: where the row of the key's state begins.
create or replace function headrace_internal.next_cell(p_cell integer, p_rows integer[], p_start integer, p_symbol integer) returns integer
language plpgsql immutable parallel safe
as $$
begin
    return coalesce(p_rows[p_cell + 1], p_start) + p_symbol;
end
$$;
