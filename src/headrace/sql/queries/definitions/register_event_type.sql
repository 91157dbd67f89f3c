-- Registers an event type, or changes its description.
insert into headrace.event_type (namespace, event_type, description)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(description)s)
on conflict on constraint event_type_pkey do update set description = coalesce(excluded.description, event_type.description);
