-- How many flights' events are in the log, and how long writing them took.
select count(*) as events,
    coalesce(extract(epoch from max(l.appended_at) - min(l.appended_at)), 0)::double precision as sequencing_s
from headrace.log l where l.topic_id = (select headrace.topic_id('flights'));
