select e.position, e.key, {symbol} as symbol, {symbols} as symbols, e.appended_at, {facts} as facts
from (
    select position, type, appended_at, ({key}) collate "C" as key{fields}
    from headrace_internal.{log}
    where position > $1 and position <= $2{types}
    offset 0
) e
