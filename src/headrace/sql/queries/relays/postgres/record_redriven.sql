-- Records that a dead letter is delivered. No row if it was delivered before.
insert into {redriven} (relay, uid, position) values (%(relay)s, %(uid)s, %(position)s) on conflict do nothing;
