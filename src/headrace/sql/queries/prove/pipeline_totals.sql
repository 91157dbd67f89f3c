-- Ledger of the batches of a topic's pipeline, added up; no row if it never had one. Index: pipeline_pkey.
select p.batches, coalesce(b.upto, 0) as upto, p.firings, p.outputs
from headrace_internal.pipeline p
join headrace_internal.topic t on t.topic_id = p.topic_id
left join lateral (select max(b.upto) as upto from headrace_internal.pipeline_batch b where b.topic_id = p.topic_id) b on true
where t.topic = %(topic)s;
