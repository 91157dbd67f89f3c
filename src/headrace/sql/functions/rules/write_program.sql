-- Writes the program of a topic's rules, unless it is the same; a null program removes it. True if something changed.
-- Runs in the transaction that began the compilation. Index: rule_program_pkey.
create or replace function headrace_internal.write_program(
    p_topic_id integer,
    p_kind     text,
    p_checksum text default null,
    p_program  text default null,
    p_integers bigint[] default '{}',
    p_numerics numeric[] default '{}',
    p_texts    text[] default '{}',
    p_moments  timestamptz[] default '{}'
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_program is null then
        delete from headrace_internal.rule_program p where p.topic_id = p_topic_id and p.kind = p_kind;
        return found;
    end if;
    insert into headrace_internal.rule_program as p (topic_id, kind, checksum, program, integers, numerics, texts, moments)
    values (p_topic_id, p_kind, p_checksum, p_program, p_integers, p_numerics, p_texts, p_moments)
    on conflict on constraint rule_program_pkey do update
    set checksum = excluded.checksum, program = excluded.program, integers = excluded.integers, numerics = excluded.numerics,
        texts = excluded.texts, moments = excluded.moments
    where p.checksum <> excluded.checksum;
    return found;
end
$$;
