-- Sets settings of the session; the defaults only where nobody has set a value: the address, the role, the database, the server.
select set_config(setting.key, setting.value, false)
from json_each_text(%(settings)s::json) setting
union all
select set_config(setting.key, setting.value, false)
from json_each_text(%(defaults)s::json) setting join pg_settings s on s.name = setting.key
where s.source = 'default';
