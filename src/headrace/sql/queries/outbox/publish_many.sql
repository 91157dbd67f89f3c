-- Publishes a JSON array of events in one statement: the way where COPY is not possible.
select count(*) from headrace.publish_many(cast(cast(%(events)s as text) as jsonb), cast(%(namespace)s as text))
