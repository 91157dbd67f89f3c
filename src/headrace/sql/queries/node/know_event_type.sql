-- A node that handles an event type directly makes the type known. A statement of its own: the rule's check must see it.
insert into headrace.event_type (namespace, event_type) values (headrace.current_namespace(%(namespace)s), %(event_type)s)
on conflict do nothing;
