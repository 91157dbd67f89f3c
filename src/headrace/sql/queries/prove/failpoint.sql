-- The failpoint inside functions: the session that reaches the armed statement for the n-th time dies. The counter is a sequence,
-- because a sequence does not roll back.
create table if not exists headrace_prove.armed (statement integer not null, hit bigint not null);
create sequence if not exists headrace_prove.hits;
create or replace function headrace_prove.hit(p_statement integer) returns boolean
language plpgsql volatile
as $$
begin
    if exists (select from headrace_prove.armed a where a.statement = p_statement)
        and nextval('headrace_prove.hits') = (select a.hit from headrace_prove.armed a) then
        perform pg_terminate_backend(pg_backend_pid());
        perform pg_sleep(10);
    end if;
    return false;
end
$$;
