select e.position, e.key, {symbol}, {symbols}, e.appended_at
from (
    select position, type, appended_at, ({key}) collate "C" as key{fields}
    from headrace_internal.{log}
    where position > p_after and position <= p_upto
    offset 0
) e
