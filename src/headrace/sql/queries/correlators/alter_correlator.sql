-- Gives a correlator another definition.
update headrace.correlator c
set topic = %(topic)s, key = %(key)s, pattern = %(pattern)s, outputs = %(outputs)s::jsonb, forget_after = %(forget_after)s,
    evidence_max = %(evidence_max)s, active = %(active)s, allow_feedback = %(allow_feedback)s, source = %(source)s,
    restart = %(restart)s
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(name)s;
