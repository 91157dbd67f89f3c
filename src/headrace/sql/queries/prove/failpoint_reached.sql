-- True once the armed failpoint has been reached often enough.
select h.is_called and h.last_value >= a.hit from headrace_prove.hits h cross join headrace_prove.armed a;
