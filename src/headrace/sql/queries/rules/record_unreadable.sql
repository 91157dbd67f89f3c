-- Records that an active version of a rule cannot be evaluated; the other rules go on without it.
select headrace_internal.record_failure('rule', v.namespace, v.rule, %(error)s)
from headrace_internal.rule_version v where v.version_id = %(version_id)s;
