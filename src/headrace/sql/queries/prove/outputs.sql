-- The outputs of correlators, without the one whose data is erased.
select h.correlator, h.key, h.token, h.output_at, h.position, h.becomes, h.output_id from headrace.correlation_history h
where h.namespace = 'default' and h.correlator <> 'person';
