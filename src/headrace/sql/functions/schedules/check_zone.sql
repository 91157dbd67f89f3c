-- Rejects a time zone that is not an IANA name: raises HR331. PostgreSQL itself would accept abbreviations and formulas too.
create or replace function headrace_internal.check_zone(p_zone text) returns void
language plpgsql stable
as $$
begin
    if not exists (select from pg_timezone_names z where z.name = p_zone) or p_zone ~ '^(posix|right|localtime|Factory)' then
        raise exception 'there is no time zone "%"', left(p_zone, 100)
            using errcode = 'HR331', hint = 'Use an IANA name such as Europe/Berlin, or UTC.';
    end if;
end
$$;
