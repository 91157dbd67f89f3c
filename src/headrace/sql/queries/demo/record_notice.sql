-- Records the notice for one late flight.
insert into notice (position, tailnum, origin, dest, delay_min) values (%s, %s, %s, %s, %s);
