-- What a relay has inserted, in the order of writing.
select c.partition, c.position, c.event_id
from public.orders_copy c
order by c.seq;
