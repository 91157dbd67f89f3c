-- Makes the handlers of an action slow.
insert into headrace_prove.switch (name, pause_s) values (%(name)s, %(pause_s)s)
on conflict (name) do update set pause_s = greatest(headrace_prove.switch.pause_s, excluded.pause_s);
