-- Registers a name, or changes its description.
insert into headrace.{registry} (namespace, {registry}, description)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(description)s)
on conflict (namespace, {registry}) do update set description = coalesce(excluded.description, {registry}.description);
