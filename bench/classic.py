"""The classic way, for comparison: a row trigger that runs the text of every rule with EXECUTE, for every event.

The same columns and the same result: an action per match. It is the usual first solution, which headrace's rules replace."""

from __future__ import annotations

from headrace.db import Connection

CLASSIC = """
create table public.classic_rule (rule text primary key, event_type text not null, condition text not null, action text not null);
create table public.classic_event (event_id uuid primary key, type text not null, payload jsonb not null);
create table public.classic_action (
    action_id bigint generated always as identity primary key, rule text not null, action text not null, event_id uuid not null,
    payload jsonb not null, fired_at timestamptz not null default clock_timestamp());
create function public.classic_fire() returns trigger
language plpgsql
as $$
declare
    v_rule record;
    v_hit  boolean;
begin
    for v_rule in select r.rule, r.condition, r.action from public.classic_rule r where r.event_type = new.type loop
        execute 'select ' || v_rule.condition || ' from (select $1 as object) e' into v_hit using new.payload;
        if v_hit then
            insert into public.classic_action (rule, action, event_id, payload)
            values (v_rule.rule, v_rule.action, new.event_id, new.payload);
        end if;
    end loop;
    return null;
end
$$;
create trigger classic_fire after insert on public.classic_event for each row execute function public.classic_fire();
"""


def create_classic(conn: Connection) -> None:
    """The tables and the trigger, with the rules of headrace.rule."""
    conn.execute(CLASSIC)
    conn.execute(
        "insert into public.classic_rule (rule, event_type, condition, action) "
        "select r.rule, r.event_type, r.condition, r.action from headrace.rule r"
    )
