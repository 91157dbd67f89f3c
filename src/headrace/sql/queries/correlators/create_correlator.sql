-- Creates a correlator. Raises HR221 when the name exists already.
insert into headrace.correlator
    (namespace, correlator, topic, key, pattern, outputs, forget_after, evidence_max, active, allow_feedback, source)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(topic)s, %(key)s, %(pattern)s, %(outputs)s::jsonb, %(forget_after)s,
    %(evidence_max)s, %(active)s, %(allow_feedback)s, %(source)s)
returning correlator_id;
