-- Publishes events in another headrace.
select count(*) from headrace.publish_many(%(events)s::jsonb, %(namespace)s);
