-- How events ended: matched by a rule, or by none; and what the handlers did for passengers.
select (select count(distinct h.event_id) from headrace.event_history h) as matched,
    (select count(*) from headrace.event_unmatched) as unmatched,
    (select count(*) from care) as cared;
