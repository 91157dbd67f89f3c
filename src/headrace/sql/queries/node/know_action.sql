-- A node that handles an event type directly makes the action known that its rule asks for.
insert into headrace.action (namespace, action) values (headrace.current_namespace(%(namespace)s), %(action)s)
on conflict do nothing;
