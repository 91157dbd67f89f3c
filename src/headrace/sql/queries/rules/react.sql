-- One batch of a topic's rules.
select r.events, r.firings, r.position from headrace_internal.react(%(topic_id)s, %(max)s) r;
