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
    after insert or update or delete or truncate on milepost.retention_policies
    for each statement execute function milepost.retention_changed();

insert into milepost.retention_policies (newest) values (50);

-- a policy decides what is pruned: whoever changes one, by milepost or by hand, is recorded with it
create function milepost.policy_act() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog
as $$
begin
    if tg_op = 'TRUNCATE' then
        insert into milepost.operator_acts (what, details) values ('retention remove', '{"policies": "all"}');
        return null;
    end if;
    insert into milepost.operator_acts (what, details)
    select case when tg_op = 'DELETE' then 'retention remove' else 'retention set' end,
           json_build_object(
               'tenant_id', policy.tenant_id, 'session_id', policy.session_id, 'newest', policy.newest,
               'max_age_seconds', extract(epoch from policy.max_age), 'max_bytes', policy.max_bytes,
               'before', case when tg_op = 'UPDATE' then json_build_object(
                   'tenant_id', old.tenant_id, 'session_id', old.session_id, 'newest', old.newest,
                   'max_age_seconds', extract(epoch from old.max_age), 'max_bytes', old.max_bytes) end)
    from (select (case when tg_op = 'DELETE' then old else new end).*) as policy;
    return null;
end
$$;

create trigger retention_changes_are_acts
    after insert or update or delete on milepost.retention_policies
    for each row execute function milepost.policy_act();

create trigger retention_truncations_are_acts
    after truncate on milepost.retention_policies
    for each statement execute function milepost.policy_act();
