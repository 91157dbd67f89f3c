-- Runs a simple table over the events of a key: over (partition by key order by position) it gives the cell of every event.
create or replace aggregate headrace_internal.run_cells(p_rows integer[], p_start integer, p_symbol integer) (
    sfunc = headrace_internal.next_cell, stype = integer, parallel = safe
);
