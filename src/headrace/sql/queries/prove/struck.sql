-- Whether the armed step was come to as often as it takes.
select h.is_called and h.last_value >= a.hit from headrace_prove.hits h cross join headrace_prove.armed a;
