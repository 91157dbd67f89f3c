-- The airports with the most flights.
select a.airport, a.departures, a.arrivals, a.cancelled,
    case when a.departures > 0 then round(a.delay_min::numeric / a.departures, 1)::double precision end as mean_delay_min
from airport a order by a.departures + a.arrivals desc, a.airport limit 6;
