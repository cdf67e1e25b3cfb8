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
create table milepost.retention_version (
    only_row boolean primary key default true check (only_row),
    version  bigint  not null default 0
);

comment on table milepost.retention_version is
    'A row and no sequence: the number must not be seen before the change that it stands for.';

insert into milepost.retention_version default values;

create function milepost.retention_changed() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog
as $$
begin
    update milepost.retention_version set version = version + 1;
    return null;
end
$$;

create trigger retention_version_moves
    after insert or update or delete on milepost.retention_policies
    for each statement execute function milepost.retention_changed();

insert into milepost.retention_policies (newest) values (50);
