-- Rules that should be active but are not: invalid, or waiting for a compiler for too long. Index: rule_version_pending.
select r.namespace, r.rule, v.status, split_part(v.error, E'\n', 1) as error,
    extract(epoch from headrace.clock() - v.written_at)::double precision as age_s
from headrace.rule r
join headrace.rule_version v on v.rule_id = r.rule_id and v.version = r.version
where v.status = 'invalid' or (v.status = 'pending' and v.written_at < headrace.clock() - make_interval(secs => %(pending_max_s)s))
order by r.namespace, r.rule;
