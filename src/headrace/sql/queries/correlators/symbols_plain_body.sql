select position, ({key}) collate "C" as key, {symbol} as symbol, {symbols} as symbols, appended_at, {facts} as facts
from headrace_internal.{log}
where position > $1 and position <= $2{types}
