-- Records that a dead letter is delivered. No row if it was delivered before.
insert into {redriven} (relay, log, position) values (%(relay)s, %(log)s, %(position)s) on conflict do nothing;
