-- Removes a name from its registry; rules that use it stay.
update headrace.{registry} set dropped = true where namespace = headrace.current_namespace(%(namespace)s) and {registry} = %(name)s;
