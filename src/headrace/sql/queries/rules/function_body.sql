-- The body of a generated function as it stands, or nothing.
select p.prosrc from pg_proc p where p.oid = to_regprocedure(%(function)s);
