select headrace.capture(
    cast(cast(%(table)s as text) as regclass), cast(%(topic)s as text),
    p_key_column => cast(%(key_column)s as text),
    p_type_column => cast(%(type_column)s as text),
    p_insert_type => cast(%(insert_type)s as text),
    p_update_type => cast(%(update_type)s as text),
    p_delete_type => cast(%(delete_type)s as text),
    p_columns => cast(%(columns)s as text[]),
    p_operations => cast(%(operations)s as text[]),
    p_namespace => cast(%(namespace)s as text))
