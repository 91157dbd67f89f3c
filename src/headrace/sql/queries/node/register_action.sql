-- Registers the action that the rule of a directly handled event type sends.
insert into headrace.action (namespace, action) values (headrace.current_namespace(%(namespace)s), %(action)s)
on conflict do nothing;
