-- Topics whose time is that of their events.
alter table headrace.topic add column clock text not null default 'server';
alter table headrace.topic add constraint topic_clock_known check (clock in ('server', 'event'));
