-- Sets the settings of a session; the defaults only where nobody has set a value: the address, the role, the database, the server.
select set_config(given.key, given.value, false)
from json_each_text(%(settings)s::json) given
union all
select set_config(given.key, given.value, false)
from json_each_text(%(defaults)s::json) given join pg_settings s on s.name = given.key
where s.source = 'default';
