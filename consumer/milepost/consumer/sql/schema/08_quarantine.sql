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
