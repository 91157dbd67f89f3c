-- The outputs of correlators.
select h.correlator, h.key, h.token, h.output_at, h.position, h.becomes, h.output_id from headrace.correlation_history h;
