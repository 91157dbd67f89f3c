-- Events of one day, in the publisher's order.
select headrace.publish(%(topic)s, 'old', to_jsonb(n)) from generate_series(1, %(events)s::int) n;
