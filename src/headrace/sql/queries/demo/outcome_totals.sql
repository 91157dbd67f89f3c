-- Events of the flights matched by a rule and by none, and the effects of the handlers for passengers.
select (select count(distinct h.event_id) from headrace.event_history h) as matched,
    (select count(*) from headrace.event_unmatched u where u.topic = %(topic)s) as unmatched,
    (select count(*) from care) as cared;
