-- Registers an event type that a node handles directly. A separate statement: the check of the rule must see it.
insert into headrace.event_type (namespace, event_type) values (headrace.current_namespace(%(namespace)s), %(event_type)s)
on conflict do nothing;
