-- Registers an event type that a node handles directly, and the action that its rule sends. Before the rule is created, in a
-- statement of its own: the check of the rule must see them.
with event_types as (
    insert into headrace.event_type (namespace, event_type) values (headrace.current_namespace(%(namespace)s), %(event_type)s)
    on conflict do nothing)
insert into headrace.action (namespace, action) values (headrace.current_namespace(%(namespace)s), %(action)s)
on conflict do nothing;
