-- Checks that the server accepts the program of rules, or the classifier of a correlator; returns its error, or null. Nothing is executed.
create or replace function headrace_internal.check_program(p_kind text, p_program text) returns text
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Left by a check that was cancelled.
    if exists (select from pg_prepared_statements s where s.name = 'headrace_check') then
        deallocate headrace_check;
    end if;
    if p_kind = 'inline' then
        -- An inline program has no text of a user in it, so that its variables can be replaced.
        execute 'prepare headrace_check (bigint[], numeric[], text[], timestamptz[]) as '
            || replace(replace(replace(replace(replace(p_program, 'from published p', 'from headrace_internal.outbox p'),
                'v_integers[', '($1)['), 'v_numerics[', '($2)['), 'v_texts[', '($3)['), 'v_moments[', '($4)[');
    else
        execute 'prepare headrace_check (bigint, bigint) as ' || p_program;
    end if;
    deallocate headrace_check;
    return null;
exception
    when others then
        if headrace_internal.is_program_error(sqlstate) then
            return sqlerrm;
        end if;
        raise;
end
$$;
