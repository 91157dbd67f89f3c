-- Claims partitions of a consumer that have events due.
select partition, position, upto, events, attempts
from headrace.claim(%(consumer_id)s, %(max)s, %(min)s, %(wait_s)s, %(partitions)s);
