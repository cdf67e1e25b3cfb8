-- one row per live checkpoint
create table milepost.checkpoints (
    tenant_id         text        collate "C" not null,
    session_id        text        collate "C" not null,
    seq               bigint      not null check (seq > 0),
    checkpoint_id     text        collate "C" not null,
    event_id          uuid        not null,
    parent_id         text        collate "C",
    run_id            uuid,
    step              bigint,
    next_node         text,
    created_at        timestamptz not null,
    framework_version text,
    schema_version    bigint,
    labels            jsonb,
    pinned            boolean     not null,
    size              integer     not null,
    sha256            bytea       not null,
    log_time          timestamptz not null,
    partition         integer     not null,
    "offset"          bigint      not null,
    state             json        not null,
    mac               bytea,
    mac_key           bytea,
    -- two hashes stand for the id in its index: with 512 characters it could exceed what a B-tree entry holds (2,704 bytes).
    -- Columns and no expressions: under row-level security an index on a function that is not leakproof goes unused
    id_hash_0         bigint      not null generated always as (hashtextextended(checkpoint_id, 0)) stored,
    id_hash_1         bigint      not null generated always as (hashtextextended(checkpoint_id, 1)) stored,
    primary key (tenant_id, session_id, seq)
) with (
    -- a state below 8 kB stays in the row: a quarter faster to write than out of line, and read without a second lookup
    toast_tuple_target = 8160,
    -- rows come and go at the same rate: clean up early, before the heap has grown
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    -- giving the end of the file back takes a lock that cancels reads on a standby; the space is wanted again at once
    vacuum_truncate = false,
    toast.vacuum_truncate = false
);

comment on column milepost.checkpoints.state is
    'The published bytes. json keeps the text as it is; jsonb would reorder keys and drop white space and duplicates.';
comment on column milepost.checkpoints.mac is
    'HMAC over this row, its state by its digest; null without an integrity key: docs/integrity.md.';
comment on column milepost.checkpoints.mac_key is 'The id of the integrity key.';

-- pglz costs four times what all the rest of an insert costs (docs/performance.md); where lz4 is missing, do without
do $$
begin
    alter table milepost.checkpoints alter column state set compression lz4;
exception when feature_not_supported then
    alter table milepost.checkpoints alter column state set storage external;
end
$$;

-- the session comes last: a statement that names a session and a range of seq must find no other index than the primary key
-- (with tenant and session first, this one looked as good to the planner, and every row of the session was read)
create unique index checkpoints_by_id on milepost.checkpoints (id_hash_0, id_hash_1, tenant_id, session_id);

create index checkpoints_by_run on milepost.checkpoints (tenant_id, run_id, log_time, session_id, seq)
    where run_id is not null;
