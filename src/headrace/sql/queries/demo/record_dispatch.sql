-- Records what was done about an aircraft or an airport. The primary key rejects a repetition.
insert into dispatch (action_id, action, key) values (%(action_id)s, %(action)s, %(key)s);
