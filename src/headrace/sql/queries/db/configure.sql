-- Sets settings of the session; limits unless the address sets them; defaults only where nobody has set a value: the address, the
-- role, the database, the server. Everything is qualified: this runs under whatever search_path the database has.
select pg_catalog.set_config(setting.key, setting.value, false)
from pg_catalog.json_each_text(%(settings)s::pg_catalog.json) setting
union all
select pg_catalog.set_config(setting.key, setting.value, false)
from pg_catalog.json_each_text(%(limits)s::pg_catalog.json) setting
join pg_catalog.pg_settings s on s.name operator(pg_catalog.=) setting.key
where s.source operator(pg_catalog.<>) 'client'
union all
select pg_catalog.set_config(setting.key, setting.value, false)
from pg_catalog.json_each_text(%(defaults)s::pg_catalog.json) setting
join pg_catalog.pg_settings s on s.name operator(pg_catalog.=) setting.key
where s.source operator(pg_catalog.=) 'default';
