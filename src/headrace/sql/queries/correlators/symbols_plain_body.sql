select position, ({key}) collate "C", {symbol}, {symbols}, appended_at
from headrace_internal.{log}
where position > p_after and position <= p_upto
