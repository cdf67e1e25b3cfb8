create schema if not exists milepost;

comment on schema milepost is
    'A view of the log in Kafka: it can be dropped and rebuilt by milepost replay.';

create type milepost.event_kind as enum ('checkpoint-created', 'session-deleted');

create type milepost.event_outcome as enum ('applied', 'duplicate', 'stale', 'conflict');

-- times travel as microseconds since 1970; in two parts, since interval arithmetic goes through double precision
create function milepost.at(microseconds bigint) returns timestamptz
    language sql immutable strict parallel safe
return timestamptz '1970-01-01 00:00:00+00'
    + (microseconds / 1000000) * interval '1 second'
    + (microseconds % 1000000) * interval '1 microsecond';

-- stands for a checkpoint id in an index, where 512 characters could be too many; the lowest bit says whether the event was applied
create function milepost.id_hash(checkpoint_id text, is_applied boolean) returns bigint
    language sql immutable strict parallel safe
return (hashtextextended(checkpoint_id, 0) & ~1::bigint) | is_applied::integer;

create function milepost.microseconds(moment timestamptz) returns bigint
    language sql immutable strict parallel safe
return (extract(epoch from moment) * 1000000)::bigint;
-- what this view is; one row
create table milepost.view (
    only_row    boolean     primary key default true check (only_row),
    view_id     uuid        not null default gen_random_uuid(),
    replay      json,
    recorded_at timestamptz not null default now()
);

comment on column milepost.view.view_id is 'Begins the name of the consumer group: two views never share partitions.';

comment on column milepost.view.replay is
    'What milepost replay was asked for, and whether it is complete; null for a view that was always live.';

insert into milepost.view default values;
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
-- what people did to the view, for ever; the log knows nothing of it
create table milepost.operator_acts (
    act_id         bigint      primary key generated always as identity,
    at             timestamptz not null default clock_timestamp(),
    login          text        not null default session_user,
    acting_as      text        not null default coalesce(nullif(current_setting('role'), 'none'), session_user),
    operator       text        default nullif(current_setting('milepost.operator', true), ''),
    application    text        default current_setting('application_name'),
    client_address inet        default inet_client_addr(),
    what           text        not null check (length(what) between 1 and 100),
    details        json        not null
);

comment on table milepost.operator_acts is
    'Written in the transaction of the act, by triggers where a table tells. Who, when and where are the server''s word, but for operator.';
comment on column milepost.operator_acts.acting_as is 'The role taken on by SET ROLE, otherwise the login.';
comment on column milepost.operator_acts.operator is 'Who sits there, as the client says it: user and host of the machine.';
comment on column milepost.operator_acts.client_address is 'Null for a connection through a socket of the server''s own machine.';

create trigger operator_acts_are_append_only
    before update or delete or truncate on milepost.operator_acts
    for each statement execute function milepost.refuse_change();

-- verification goes by these acts, so nobody but the tables' own triggers, which run as the owner, may say that there was one
create function milepost.refuse_forged_act() returns trigger
    language plpgsql
    set search_path = pg_catalog
as $$
begin
    if not pg_has_role((select relowner from pg_class where oid = tg_relid), 'usage') then
        raise exception 'an act of % is refused: expected it from the trigger of its table, found it inserted by %',
            split_part(new.what, ' ', 1), current_user
            using errcode = 'insufficient_privilege';
    end if;
    return new;
end
$$;

create trigger acts_of_tables_are_theirs
    before insert on milepost.operator_acts
    for each row when (new.what ~* '^\s*(retention|quarantine)')
    execute function milepost.refuse_forged_act();
-- one row per publisher instance and partition: what is missing is the highest number less the events seen
create table milepost.publishers (
    publisher_id uuid        not null,
    partition    integer     not null,
    source       text        not null,
    events       bigint      not null,
    highest_seq  bigint      not null,
    first_seen   timestamptz not null,
    last_seen    timestamptz not null,
    primary key (publisher_id, partition)
) with (fillfactor = 70);
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
-- roles belong to the whole server: they may be there already, or somebody may be making them just now
do $$
begin
    if not exists (select from pg_roles where rolname = 'milepost_writer') then
        begin
            begin
                -- COPY into a table with row-level security needs this attribute; the writer writes every tenant's rows
                create role milepost_writer nologin bypassrls;
            exception when insufficient_privilege then
                -- without it the writer goes through temporary tables, which is slower
                create role milepost_writer nologin;
            end;
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise warning 'the role milepost_writer could not be made, which takes createrole (create role milepost_writer nologin bypassrls; then milepost setup again); until then the consumer has to connect as the owner of the tables';
        end;
    end if;
    if not exists (select from pg_roles where rolname = 'milepost_reader') then
        begin
            create role milepost_reader nologin;
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise warning 'the role milepost_reader could not be made, which takes createrole (create role milepost_reader nologin; then milepost setup again)';
        end;
    end if;
end
$$;
revoke all on schema milepost from public;
revoke all on all functions in schema milepost from public;
grant execute on function milepost.at(bigint), milepost.microseconds(timestamptz), milepost.id_hash(text, boolean) to public;

-- Each table that names a tenant shows a reader that tenant's rows alone: set milepost.tenant_id first. The security is forced,
-- so that nobody but a superuser, or who has bypassrls, passes it without a policy; the owner's ones are below.
do $$
declare
    name text;
    is_owner constant text :=
        '(select pg_has_role(relowner, ''usage'') from pg_class where oid = ''milepost.history''::regclass)';
begin
    foreach name in array array['sessions', 'checkpoints', 'history', 'retention_policies'] loop
        execute format('alter table milepost.%I enable row level security', name);
        execute format('alter table milepost.%I force row level security', name);
        execute format('drop policy if exists owner_has_all on milepost.%I', name);
        execute format('drop policy if exists owner_adds on milepost.%I', name);
    end loop;
    -- whoever owns the tables now: a role named here would stay when they are handed on
    foreach name in array array['sessions', 'checkpoints', 'retention_policies'] loop
        execute format('create policy owner_has_all on milepost.%I using (%s) with check (%s)', name, is_owner, is_owner);
    end loop;
    -- no policy to update or delete: a second lock beside the trigger
    execute format('create policy owner_has_all on milepost.history for select using (%s)', is_owner);
    execute format('create policy owner_adds on milepost.history for insert with check (%s)', is_owner);
end
$$;

do $$
declare
    name text;
begin
    if exists (select from pg_roles where rolname = 'milepost_writer') then
        grant usage on schema milepost to milepost_writer;
        grant select on all tables in schema milepost to milepost_writer;
        grant insert, update, delete on milepost.sessions, milepost.checkpoints, milepost.publishers to milepost_writer;
        grant insert, update on milepost.partitions to milepost_writer;
        grant update (replay) on milepost.view to milepost_writer;
        grant insert on milepost.history, milepost.quarantine to milepost_writer;
        grant update (reason, detail, status, note, changed_by, changed_at) on milepost.quarantine to milepost_writer;
        -- who, when and where are never the writer's to say
        grant insert (what, details) on milepost.operator_acts to milepost_writer;
        foreach name in array array['sessions', 'checkpoints', 'history', 'retention_policies'] loop
            execute format('drop policy if exists writer_has_all on milepost.%I', name);
            execute format('drop policy if exists writer_adds on milepost.%I', name);
        end loop;
        foreach name in array array['sessions', 'checkpoints'] loop
            execute format('create policy writer_has_all on milepost.%I to milepost_writer using (true) with check (true)', name);
        end loop;
        create policy writer_has_all on milepost.history for select to milepost_writer using (true);
        create policy writer_adds on milepost.history for insert to milepost_writer with check (true);
        create policy writer_has_all on milepost.retention_policies for select to milepost_writer using (true);
    end if;
    if exists (select from pg_roles where rolname = 'milepost_reader') then
        grant usage on schema milepost to milepost_reader;
        grant select on milepost.sessions, milepost.checkpoints, milepost.history, milepost.partitions,
            milepost.retention_policies to milepost_reader;
        foreach name in array array['sessions', 'checkpoints', 'history', 'retention_policies'] loop
            execute format('drop policy if exists reader_has_tenant on milepost.%I', name);
        end loop;
        foreach name in array array['sessions', 'checkpoints', 'history'] loop
            execute format(
                'create policy reader_has_tenant on milepost.%I for select to milepost_reader '
                'using (tenant_id = current_setting(''milepost.tenant_id'', true))', name);
        end loop;
        -- the default belongs to everybody
        create policy reader_has_tenant on milepost.retention_policies for select to milepost_reader
            using (tenant_id is null or tenant_id = current_setting('milepost.tenant_id', true));
    end if;
end
$$;
