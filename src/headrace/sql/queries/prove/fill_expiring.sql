-- Publishes old events of one day, in their order.
select headrace.publish(%(topic)s, 'old', to_jsonb(n)) from generate_series(1, %(events)s::int) n;
