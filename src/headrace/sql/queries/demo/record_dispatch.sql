-- What was done about an aircraft or an airport. The primary key would refuse a second time.
insert into dispatch (action_id, action, key) values (%(action_id)s, %(action)s, %(key)s);
