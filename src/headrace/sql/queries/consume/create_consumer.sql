-- Makes a consumer known, or changes its policy.
select headrace.create_consumer(
    p_topic => %(topic)s, p_consumer => %(consumer)s, p_start => %(start)s, p_ordered_by => %(ordered_by)s,
    p_attempts_max => %(attempts_max)s, p_backoff_s => %(backoff_s)s, p_backoff_max_s => %(backoff_max_s)s,
    p_when_exhausted => %(when_exhausted)s, p_key_order => %(key_order)s, p_namespace => %(namespace)s);
