-- Sets what happens to rules with names that are not registered.
update headrace_internal.namespace n set unknown_names = %(unknown_names)s where n.namespace = %(namespace)s;
