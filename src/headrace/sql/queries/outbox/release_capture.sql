select headrace.release_capture(
    cast(cast(%(table)s as text) as regclass), cast(%(topic)s as text), cast(%(namespace)s as text))
