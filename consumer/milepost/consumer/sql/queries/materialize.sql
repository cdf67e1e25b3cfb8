-- name: positions
select partition, next_offset, digest, epoch, retention_version
from milepost.partitions
where partition = any(%b::int4[])

-- name: policies
select tenant_id, session_id, newest, (extract(epoch from max_age) * 1000000)::bigint, max_bytes
from milepost.retention_policies

-- name: policies_version
select version from milepost.retention_version

-- name: heads
select s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
       milepost.microseconds(s.first_event_time),
       milepost.microseconds(s.last_event_time),
       s.live_checkpoints, s.live_bytes,
       milepost.microseconds(s.deleted_at),
       s.deleted_seq, uuid_send(s.max_event_id), coalesce(s.max_checkpoint_id, ''), s.chain, s.pruned_seq, s.mac, s.mac_key
from unnest(%b::text[], %b::text[]) as k (tenant_id, session_id)
join milepost.sessions s on s.tenant_id = k.tenant_id and s.session_id = k.session_id

-- name: windows
-- what is live up to `low` is pinned and has left the window; what else was there may lie dead, and would be walked over;
-- each offset keeps a part as it is, so that no statistics lead to a plan that begins with the checkpoints
select c.tenant_id, c.session_id, c.seq, c.size, milepost.microseconds(c.log_time), c.pinned
from unnest(%b::text[], %b::text[]) as k (tenant_id, session_id)
cross join lateral (
    select greatest(s.pruned_seq, s.deleted_seq) as low
    from milepost.sessions s
    where s.tenant_id = k.tenant_id and s.session_id = k.session_id
    offset 0
) s
cross join lateral (
    select *
    from milepost.checkpoints e
    where e.tenant_id = k.tenant_id and e.session_id = k.session_id and e.seq > s.low
    offset 0
) c
order by c.tenant_id, c.session_id, c.seq

-- name: signed_windows
-- the same with all that a row's MAC covers, in the order of integrity/facts.py
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id, uuid_send(c.run_id), c.step,
       c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version, c.pinned, c.size, c.sha256,
       timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition, c."offset", c.mac, c.mac_key
from unnest(%b::text[], %b::text[]) as k (tenant_id, session_id)
join milepost.checkpoints c on c.tenant_id = k.tenant_id and c.session_id = k.session_id
order by c.tenant_id, c.session_id, c.seq

-- name: any_signature
-- a view is signed throughout or not at all, so that one row tells
select mac_key is not null from milepost.sessions limit 1

-- name: known_events
-- the first of each; as a range of rows in the index's own order, so that no statistics lead to another index
select h.tenant_id, h.session_id, uuid_send(h.event_id), h.seq, h.kind::text, h.checkpoint_id, h.sha256
from unnest(%b::text[], %b::text[], %b::uuid[]) as k (tenant_id, session_id, event_id)
cross join lateral (
    select e.*
    from milepost.history e
    where (e.event_id, e.tenant_id, e.session_id, e.seq) > (k.event_id, k.tenant_id, k.session_id, 0)
    order by e.event_id, e.tenant_id, e.session_id, e.seq
    limit 1
) h
where h.event_id = k.event_id and h.tenant_id = k.tenant_id and h.session_id = k.session_id

-- name: known_checkpoints
-- the latest of each that was applied; as a range like the last one, in which other ids with the same hash may stand
select h.tenant_id, h.session_id, h.checkpoint_id, h.seq, h.kind::text, h.checkpoint_id, h.sha256
from unnest(%b::text[], %b::text[], %b::text[]) as k (tenant_id, session_id, checkpoint_id)
cross join lateral (
    select e.*
    from milepost.history e
    where (e.id_hash, e.tenant_id, e.session_id, e.seq)
            > (milepost.id_hash(k.checkpoint_id, true), k.tenant_id, k.session_id, 0)
        and (e.id_hash, e.tenant_id, e.session_id, e.seq)
            <= (milepost.id_hash(k.checkpoint_id, true), k.tenant_id, k.session_id, 9223372036854775807)
        and e.id_hash is not null and e.checkpoint_id = k.checkpoint_id
    order by e.id_hash desc, e.tenant_id desc, e.session_id desc, e.seq desc
    limit 1
) h

-- name: publisher_numbers
select uuid_send(p.publisher_id), p.partition, p.highest_seq
from unnest(%b::bytea[], %b::int4[]) as k (publisher_id, partition)
join milepost.publishers p on p.publisher_id = encode(k.publisher_id, 'hex')::uuid and p.partition = k.partition

-- name: hold_positions
-- whoever moves a partition, or changes its sessions, holds its row until the end of the transaction
select p.partition
from unnest(%b::int4[], %b::int8[], %b::int8[]) as m (partition, expected, epoch)
join milepost.partitions p on p.partition = m.partition and p.next_offset = m.expected and p.epoch = m.epoch
order by p.partition
for no key update of p

-- name: stopped_holders
-- a row that is held by one transaction has its number in xmax, or that of its savepoint: who has locked that number holds it
select a.pid, a.query_start::text, array_agg(distinct p.partition order by p.partition),
       extract(epoch from clock_timestamp() - a.query_start)::float8,
       coalesce((select c.bytes_processed from pg_stat_progress_copy c where c.pid = a.pid), 0)
from milepost.partitions p
join pg_locks l on l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted and l.transactionid = p.xmax
join pg_stat_activity a on a.pid = l.pid
where p.partition = any(%b::int4[])
    and a.datname = current_database() and a.state = 'active' and a.wait_event = 'ClientRead'
    and a.query_start < clock_timestamp() - make_interval(secs => %b)
group by a.pid, a.query_start
order by a.pid

-- name: move_positions
update milepost.partitions p
set next_offset = m.next_offset,
    log_time = coalesce(milepost.at(m.log_time), p.log_time),
    events = p.events + m.events,
    applied = p.applied + m.applied,
    duplicates = p.duplicates + m.duplicates,
    stale = p.stale + m.stale,
    conflicts = p.conflicts + m.conflicts,
    quarantined = p.quarantined + m.quarantined,
    state_bytes = p.state_bytes + m.state_bytes,
    digest = m.digest,
    epoch = p.epoch + 1,
    recorded_at = now()
from unnest(%b::int4[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::int8[],
            %b::int8[], %b::bytea[])
    as m (partition, next_offset, log_time, events, applied, duplicates, stale, conflicts, quarantined, state_bytes, digest)
where p.partition = m.partition
returning (select version from milepost.retention_version)

-- name: skip_positions
update milepost.partitions p
set next_offset = m.next_offset, recorded_at = now()
from unnest(%b::int4[], %b::int8[], %b::int8[]) as m (partition, expected, next_offset)
where p.partition = m.partition and p.next_offset = m.expected
returning p.partition

-- name: sessions_to_sweep
select tenant_id, session_id, partition, live_checkpoints, live_bytes
from milepost.sessions
where (tenant_id, session_id) > (%s, %s)
order by tenant_id, session_id
limit %s

-- name: swept
update milepost.partitions set retention_version = %s where partition = any(%b::int4[])

-- name: remove_checkpoints
delete from milepost.checkpoints c
using unnest(%b::text[], %b::text[], %b::int8[], %b::int8[], %b::bool[])
    as r (tenant_id, session_id, low, high, all_of_them)
where c.tenant_id = r.tenant_id and c.session_id = r.session_id
    and c.seq > r.low and c.seq <= r.high
    and (r.all_of_them or not c.pinned)

-- name: upsert_sessions
insert into milepost.sessions as s
    (tenant_id, session_id, partition, last_seq, newest_seq, newest_checkpoint_id, first_event_time, last_event_time,
     live_checkpoints, live_bytes, deleted_at, deleted_seq, max_event_id, max_checkpoint_id, chain, pruned_seq, mac, mac_key)
select tenant_id, session_id, partition, last_seq, newest_seq, newest_checkpoint_id,
       milepost.at(first_event_time),
       milepost.at(last_event_time),
       live_checkpoints, live_bytes,
       milepost.at(deleted_at),
       deleted_seq, encode(max_event_id, 'hex')::uuid, nullif(max_checkpoint_id, ''), chain, pruned_seq, mac, mac_key
from unnest(%b::text[], %b::text[], %b::int4[], %b::int8[], %b::int8[], %b::text[], %b::int8[], %b::int8[],
            %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::bytea[], %b::text[], %b::bytea[], %b::int8[], %b::bytea[],
            %b::bytea[])
    as n (tenant_id, session_id, partition, last_seq, newest_seq, newest_checkpoint_id, first_event_time, last_event_time,
          live_checkpoints, live_bytes, deleted_at, deleted_seq, max_event_id, max_checkpoint_id, chain, pruned_seq, mac,
          mac_key)
on conflict (tenant_id, session_id) do update
set last_seq = excluded.last_seq,
    newest_seq = excluded.newest_seq,
    newest_checkpoint_id = excluded.newest_checkpoint_id,
    last_event_time = excluded.last_event_time,
    live_checkpoints = excluded.live_checkpoints,
    live_bytes = excluded.live_bytes,
    deleted_at = excluded.deleted_at,
    deleted_seq = excluded.deleted_seq,
    max_event_id = excluded.max_event_id,
    max_checkpoint_id = excluded.max_checkpoint_id,
    chain = excluded.chain,
    pruned_seq = excluded.pruned_seq,
    mac = excluded.mac,
    mac_key = excluded.mac_key

-- name: upsert_publishers
insert into milepost.publishers as p (publisher_id, partition, source, events, highest_seq, first_seen, last_seen)
select encode(publisher_id, 'hex')::uuid, partition, source, events, highest_seq,
       milepost.at(first_seen),
       milepost.at(last_seen)
from unnest(%b::bytea[], %b::int4[], %b::text[], %b::int8[], %b::int8[], %b::int8[], %b::int8[])
    as n (publisher_id, partition, source, events, highest_seq, first_seen, last_seen)
on conflict (publisher_id, partition) do update
set events = p.events + excluded.events,
    highest_seq = greatest(p.highest_seq, excluded.highest_seq),
    -- a record that is retried comes before those that were seen
    source = case when excluded.first_seen < p.first_seen then excluded.source else p.source end,
    first_seen = least(p.first_seen, excluded.first_seen),
    last_seen = greatest(p.last_seen, excluded.last_seen)

-- name: quarantine
insert into milepost.quarantine (topic, partition, "offset", log_time, key, headers, value, reason, detail)
values (%s, %s, %s, milepost.at(%s), %b, %s::json, %b, %s, %s)

-- name: bind_log
insert into milepost.partitions (partition, cluster_id, topic, topic_id, retention_version)
select partition, %s, %s, %s, (select version from milepost.retention_version) from generate_series(0, %s - 1) as partition
on conflict (partition) do nothing

-- name: bound_log
select min(cluster_id), min(topic), min(topic_id), count(*), count(distinct (cluster_id, topic, topic_id))
from milepost.partitions

-- name: consumer_group
-- a copy of a database has its view's id; the server's and the database's own numbers tell them apart, so that two never share
-- partitions; a standby that takes over has all three
select 'milepost-' || v.view_id || '-' || c.system_identifier || '-' || d.oid
from milepost.view v, pg_catalog.pg_control_system() c, pg_catalog.pg_database d
where d.datname = current_database()
