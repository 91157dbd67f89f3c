-- Changes a schedule; null leaves a thing as it is.
select headrace.alter_schedule(
    p_schedule => %(schedule)s, p_cron => %(cron)s, p_zone => %(zone)s, p_type => %(type)s, p_payload => %(payload)s,
    p_key => %(key)s, p_headers => %(headers)s, p_missed => %(missed)s, p_missed_max => %(missed_max)s,
    p_grace_s => %(grace_s)s, p_namespace => %(namespace)s);
