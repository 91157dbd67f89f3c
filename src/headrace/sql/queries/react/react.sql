-- One batch of a topic's rules.
select r.events, r.firings, r.position from headrace.react(%(topic_id)s, %(max)s) r;
