-- Records what was done for the passengers of a flight. The primary key rejects a repetition.
insert into care (action_id, action, flight, dest, delay_min)
values (%(action_id)s, %(action)s, %(flight)s, %(dest)s, %(delay_min)s);
