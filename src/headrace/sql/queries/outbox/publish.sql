-- Publishes one event. Every value travels as text and is cast here, so that a driver's own codecs cannot change it.
select headrace.publish(
    cast(%(topic)s as text), cast(%(type)s as text), cast(cast(%(payload)s as text) as jsonb),
    p_key => cast(%(key)s as text),
    p_headers => cast(cast(%(headers)s as text) as jsonb),
    p_event_id => cast(cast(%(id)s as text) as uuid),
    p_emitted_at => cast(cast(%(emitted_at)s as text) as timestamptz),
    p_producer => cast(%(producer)s as text),
    p_namespace => cast(%(namespace)s as text))
