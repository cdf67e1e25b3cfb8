-- one row per session: its head
create table milepost.sessions (
    tenant_id            text        collate "C" not null,
    session_id           text        collate "C" not null,
    partition            integer     not null,
    last_seq             bigint      not null check (last_seq > 0),
    newest_seq           bigint,
    newest_checkpoint_id text        collate "C",
    first_event_time     timestamptz not null,
    last_event_time      timestamptz not null,
    live_checkpoints     bigint      not null check (live_checkpoints >= 0),
    live_bytes           bigint      not null check (live_bytes >= 0),
    deleted_at           timestamptz,
    deleted_seq          bigint,
    max_event_id         uuid        not null,
    max_checkpoint_id    text        collate "C",
    chain                bytea       not null,
    pruned_seq           bigint      not null default 0 check (pruned_seq >= 0),
    mac                  bytea,
    mac_key              bytea,
    primary key (tenant_id, session_id)
) with (fillfactor = 70);

comment on column milepost.sessions.newest_seq is 'The seq of the newest live checkpoint; null when there is none.';
comment on column milepost.sessions.deleted_at is
    'The latest deletion''s own time: events made before it that arrive after it are stale.';
comment on column milepost.sessions.max_event_id is
    'The greatest event id seen. An id above it is new for certain, so that only others need a look into history.';
comment on column milepost.sessions.max_checkpoint_id is 'The greatest checkpoint id seen, byte-wise; used likewise.';
comment on column milepost.sessions.pruned_seq is
    'Retention has removed every checkpoint up to here that is not pinned; 0 for none since the latest deletion.';
comment on column milepost.sessions.mac is 'HMAC over this row, null without an integrity key: docs/integrity.md.';
comment on column milepost.sessions.mac_key is 'The id of the integrity key.';
