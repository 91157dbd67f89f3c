-- Who calls a function of ours. Public functions run with the owner's rights, so inside them current_user is the owner. Their last
-- parameter, p_caller, has this type and the default current_user, which PostgreSQL evaluates before the call, as the caller.
-- The check makes it impossible to name anybody else. session_user would not do: in an index expression that autovacuum evaluates
-- it is a superuser, and the role that wrote the expression would act as one.
create domain headrace_internal.caller as name not null constraint caller_is_current_user check (value = current_user);
