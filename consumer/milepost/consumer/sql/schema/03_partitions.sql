-- one row per partition of the log: how far the view is, and which log it is a view of
create table milepost.partitions (
    partition   integer primary key check (partition >= 0),
    cluster_id  text    collate "C" not null,
    topic       text    collate "C" not null,
    topic_id    text    collate "C" not null,
    next_offset bigint  not null default 0 check (next_offset >= 0),
    log_time    timestamptz,
    events      bigint  not null default 0,
    applied     bigint  not null default 0,
    duplicates  bigint  not null default 0,
    stale       bigint  not null default 0,
    conflicts   bigint  not null default 0,
    quarantined bigint  not null default 0,
    state_bytes bigint  not null default 0,
    retention_version bigint not null default 0,
    epoch       bigint  not null default 0,
    digest      bytea   not null default '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea,
    recorded_at timestamptz not null default now()
) with (fillfactor = 50);

comment on column milepost.partitions.next_offset is
    'Every record below it is in the view. Moved by compare-and-set in the transaction that writes the rows.';
comment on column milepost.partitions.log_time is 'The log''s time of the last record below next_offset.';
comment on column milepost.partitions.retention_version is
    'The policies that all sessions of the partition were measured by; set by a sweep after a change.';
comment on column milepost.partitions.epoch is
    'Moves with each change of the partition''s sessions, by events, sweeps, retries or a new key. What others remember of them is void then.';
comment on column milepost.partitions.digest is 'Running digest over all records below next_offset: docs/chain.md.';
