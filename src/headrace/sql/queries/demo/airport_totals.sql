-- The consumer's counts over all airports.
select coalesce(sum(a.departures), 0)::bigint as departures, coalesce(sum(a.arrivals), 0)::bigint as arrivals,
    coalesce(sum(a.cancelled), 0)::bigint as cancelled, coalesce(sum(a.delay_min), 0)::bigint as delay_min
from airport a;
