-- Records that a node also runs the sequencer and the other loops that serve every namespace; the doctor looks for one.
create or replace function headrace_internal.mark_sequencer(p_node_id uuid) returns void
language sql volatile
as $$
    update headrace_internal.node n set sequencer = true where n.node_id = p_node_id
$$;
