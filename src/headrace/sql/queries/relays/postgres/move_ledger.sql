-- Records up to which position a relay has delivered a partition.
update {ledger} set position = %(position)s, moved_at = now()
where relay = %(relay)s and uid = %(uid)s and partition = %(partition)s;
