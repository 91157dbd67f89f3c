-- Records when a batch was handled.
insert into handled_batch (partition, first_position, last_position, events) values (%s, %s, %s, %s);
