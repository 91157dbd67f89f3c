-- How many events a range of a topic's log has.
select count(*) from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position > %(after)s and l.position <= %(upto)s;
