-- Whether a correlator keeps a state of a key. Index: correlator_instance_pkey.
select exists (
    select from headrace_internal.correlator_instance i
    join headrace_internal.correlator c on c.correlator_id = i.correlator_id
    where c.correlator = 'person' and i.key = %(key)s);
