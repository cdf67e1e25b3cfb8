-- how much of a session stays: the narrowest policy that fits holds
create table milepost.retention_policies (
    tenant_id   text     collate "C",
    session_id  text     collate "C",
    newest      integer  not null check (newest >= 1),
    max_age     interval check (max_age > interval '0'),
    max_bytes   bigint   check (max_bytes > 0),
    recorded_at timestamptz not null default now(),
    check (tenant_id is not null or session_id is null),
    unique nulls not distinct (tenant_id, session_id)
);

comment on table milepost.retention_policies is
    'The row without tenant is the default; without session, a tenant''s. max_age counts back from the log''s time of the session''s newest checkpoint.';

-- moves with every change of a policy, so that consumers notice
create sequence milepost.retention_version;

create function milepost.retention_changed() returns trigger
    language plpgsql
    set search_path = pg_catalog
as $$
begin
    perform pg_catalog.nextval('milepost.retention_version');
    return null;
end
$$;

create trigger retention_version_moves
    after insert or update or delete on milepost.retention_policies
    for each statement execute function milepost.retention_changed();

insert into milepost.retention_policies (newest) values (50);
