-- How far the demo is: in the log, handled, called out as late, told. Index: log_position backwards.
select coalesce((select h.position from headrace.log_head(headrace.topic_id('flights')) h), 0)::bigint as in_log,
    (select coalesce(sum(b.events), 0) from handled_batch b)::bigint as handled,
    coalesce((select h.position from headrace.log_head(headrace.topic_id('delays')) h), 0)::bigint as late,
    (select count(*) from notice) as told;
