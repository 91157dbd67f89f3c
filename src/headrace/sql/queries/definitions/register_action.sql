-- Registers an action, or changes its description.
insert into headrace.action (namespace, action, description)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(description)s)
on conflict on constraint action_pkey do update set description = coalesce(excluded.description, action.description);
