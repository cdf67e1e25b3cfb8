-- one row per event of the log, for ever, without the state
create table milepost.history (
    tenant_id         text        collate "C" not null,
    session_id        text        collate "C" not null,
    seq               bigint      not null check (seq > 0),
    kind              milepost.event_kind    not null,
    outcome           milepost.event_outcome not null,
    event_id          uuid        not null,
    event_time        timestamptz not null,
    log_time          timestamptz not null,
    checkpoint_id     text        collate "C",
    parent_id         text        collate "C",
    run_id            uuid,
    step              bigint,
    next_node         text,
    reason            text,
    framework_version text,
    schema_version    bigint,
    pinned            boolean     not null,
    labels            json,
    size              integer     not null,
    sha256            bytea,
    source            text        not null,
    publisher_id      uuid,
    publisher_seq     bigint,
    traceparent       text,
    tracestate        text,
    extensions        json,
    chain             bytea       not null,
    topic             text        collate "C" not null,
    partition         integer     not null,
    "offset"          bigint      not null,
    recorded_at       timestamptz not null default now(),
    id_hash           bigint      generated always as (milepost.id_hash(checkpoint_id, outcome = 'applied')) stored,
    primary key (tenant_id, session_id, seq)
) with (
    -- rows never change: a vacuum freezes what is new, every million rows, however many there are already
    autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_vacuum_insert_scale_factor = 0
);

comment on column milepost.history.event_time is 'When the runtime made the event, by its own clock.';
comment on column milepost.history.log_time is 'When the log took the record, by the broker''s clock.';
comment on column milepost.history.chain is 'Digest over this event and its predecessor''s chain: docs/chain.md.';

-- both end in seq, so that of an id that came again and again one row is read: the first, or the latest that was applied
create index history_by_event on milepost.history (event_id, tenant_id, session_id, seq);

create index history_by_checkpoint on milepost.history (id_hash, tenant_id, session_id, seq)
    where id_hash is not null;

-- what a deletion took away is told by the first one that follows; there are few of them, so this index is small
create index history_deletions on milepost.history (tenant_id, session_id, seq)
    where kind = 'session-deleted' and outcome = 'applied';

create function milepost.refuse_change() returns trigger
    language plpgsql
    set search_path = pg_catalog
as $$
begin
    raise exception '% of milepost.% is refused: it is append-only', tg_op, tg_table_name
        using errcode = 'restrict_violation';
end
$$;

create trigger history_is_append_only
    before update or delete or truncate on milepost.history
    for each statement execute function milepost.refuse_change();
