-- Makes a node known.
select headrace.register_node(
    %(node_id)s, %(name)s, %(version)s, %(handlers)s::text[], %(description)s, %(metadata)s::jsonb, %(namespace)s);
