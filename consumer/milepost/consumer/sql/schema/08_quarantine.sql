-- one row per record of the log that could not be applied
create table milepost.quarantine (
    topic       text        collate "C" not null,
    partition   integer     not null,
    "offset"    bigint      not null,
    log_time    timestamptz not null,
    key         bytea,
    headers     json        not null,
    value       bytea,
    reason      text        collate "C" not null,
    detail      text        not null,
    status      text        collate "C" not null default 'open' check (status in ('open', 'retried', 'dismissed')),
    note        text,
    changed_by  text,
    changed_at  timestamptz,
    recorded_at timestamptz not null default now(),
    primary key (partition, "offset")
);

comment on column milepost.quarantine.headers is
    'All headers in order: [name, value], each a text, null, or {"base64": …} where it is not UTF-8.';

create index quarantine_open on milepost.quarantine (partition, "offset") where status = 'open';

-- whoever changes what is to become of a record, by milepost or by hand, is recorded with it
create function milepost.quarantine_act() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog
as $$
begin
    insert into milepost.operator_acts (what, details)
    values (
        case
            when tg_op = 'DELETE' then 'quarantine remove'
            when new.status = 'dismissed' and old.status <> 'dismissed' then 'quarantine dismiss'
            when new.status = 'open' and old.status <> 'open' then 'quarantine reopen'
            when new.changed_at is distinct from old.changed_at then 'quarantine retry'
            else 'quarantine change'
        end,
        json_build_object(
            'topic', old.topic, 'partition', old.partition, 'offset', old."offset", 'reason', old.reason,
            'status', case when tg_op = 'DELETE' then old.status else new.status end,
            'note', case when tg_op = 'DELETE' then old.note else new.note end));
    return null;
end
$$;

create trigger quarantine_changes_are_acts
    after update of status, note, changed_by, changed_at on milepost.quarantine
    for each row
    when ((old.status, old.note, old.changed_by, old.changed_at)
        is distinct from (new.status, new.note, new.changed_by, new.changed_at))
    execute function milepost.quarantine_act();

create trigger quarantine_removals_are_acts
    after delete on milepost.quarantine
    for each row execute function milepost.quarantine_act();
