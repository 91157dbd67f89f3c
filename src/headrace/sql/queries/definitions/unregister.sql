-- Removes a name from its registry; rules that use it stay.
delete from headrace.{registry} where namespace = headrace.current_namespace(%(namespace)s) and {registry} = %(name)s;
