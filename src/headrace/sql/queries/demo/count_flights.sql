-- Adds the counts of a batch to the airports. Locks: the rows of the airports, in the order of the arrays.
insert into airport as a (airport, departures, arrivals, cancelled, delay_min)
select n.airport, n.departures, n.arrivals, n.cancelled, n.delay_min
from unnest(%(airports)s::text[], %(departures)s::bigint[], %(arrivals)s::bigint[], %(cancelled)s::bigint[], %(delay_min)s::bigint[])
    n (airport, departures, arrivals, cancelled, delay_min)
on conflict (airport) do update
set departures = a.departures + excluded.departures, arrivals = a.arrivals + excluded.arrivals,
    cancelled = a.cancelled + excluded.cancelled, delay_min = a.delay_min + excluded.delay_min;
