-- What makes two views equal, table by table: the columns before the bar are the key, and rows come in its order.
-- Left out, because they hang on the consumer's clock or on an operator: recorded_at, view_id, epochs, what was done about
-- a quarantined record; and mac and mac_key, which hang on the integrity key. Times are microseconds, states are their digests, made by the server from the bytes.

-- name: partitions
select partition::text as "partition|", cluster_id, topic, topic_id, next_offset::text,
       milepost.microseconds(log_time)::text as log_time, events::text, applied::text, duplicates::text, stale::text,
       conflicts::text, quarantined::text, state_bytes::text, encode(digest, 'hex') as digest
from milepost.partitions
order by milepost.partitions.partition

-- name: sessions
select tenant_id as "tenant_id|", session_id as "session_id|", partition::text, last_seq::text, newest_seq::text,
       newest_checkpoint_id, milepost.microseconds(first_event_time)::text as first_event_time,
       milepost.microseconds(last_event_time)::text as last_event_time, live_checkpoints::text, live_bytes::text,
       milepost.microseconds(deleted_at)::text as deleted_at, deleted_seq::text, max_event_id::text, max_checkpoint_id,
       encode(chain, 'hex') as chain, pruned_seq::text
from milepost.sessions
order by tenant_id, session_id

-- name: checkpoints
select tenant_id as "tenant_id|", session_id as "session_id|", seq::text as "seq|", checkpoint_id, event_id::text,
       parent_id, run_id::text, step::text, next_node, milepost.microseconds(created_at)::text as created_at,
       framework_version, schema_version::text, labels::text, pinned::text, size::text, encode(sha256, 'hex') as sha256,
       milepost.microseconds(log_time)::text as log_time, partition::text, "offset"::text,
       encode(sha256(convert_to(state::text, 'UTF8')), 'hex') as state
from milepost.checkpoints c
order by c.tenant_id, c.session_id, c.seq

-- name: history
select tenant_id as "tenant_id|", session_id as "session_id|", seq::text as "seq|", kind::text, outcome::text,
       event_id::text, milepost.microseconds(event_time)::text as event_time,
       milepost.microseconds(log_time)::text as log_time, checkpoint_id, parent_id, run_id::text, step::text, next_node,
       reason, framework_version, schema_version::text, pinned::text, labels::text, size::text,
       encode(sha256, 'hex') as sha256, source, publisher_id::text, publisher_seq::text, traceparent, tracestate,
       extensions::text, encode(chain, 'hex') as chain, topic, partition::text, "offset"::text
from milepost.history h
order by h.tenant_id, h.session_id, h.seq

-- name: publishers
select publisher_id::text as "publisher_id|", partition::text as "partition|", source, events::text, highest_seq::text,
       milepost.microseconds(first_seen)::text as first_seen, milepost.microseconds(last_seen)::text as last_seen
from milepost.publishers p
order by p.publisher_id, p.partition

-- name: quarantine
select topic, partition::text as "partition|", "offset"::text as "offset|",
       milepost.microseconds(log_time)::text as log_time, encode(key, 'hex') as key, headers::text,
       encode(sha256(value), 'hex') as value, reason
from milepost.quarantine q
where status <> 'retried'
order by q.partition, q."offset"

-- What the next three say of a log does not hang on where its records stand: other partitions, the same contents.

-- name: partitions_anywhere
select 'all'::text as "partitions|", milepost.microseconds(max(log_time))::text as log_time,
       sum(events)::text as events, sum(applied)::text as applied, sum(duplicates)::text as duplicates,
       sum(stale)::text as stale, sum(conflicts)::text as conflicts, sum(quarantined)::text as quarantined,
       sum(state_bytes)::text as state_bytes
from milepost.partitions
having count(*) > 0

-- name: publishers_anywhere
select publisher_id::text as "publisher_id|", max(source collate "C") as source, sum(events)::text as events,
       max(highest_seq)::text as highest_seq, milepost.microseconds(min(first_seen))::text as first_seen,
       milepost.microseconds(max(last_seen))::text as last_seen
from milepost.publishers p
group by p.publisher_id
order by p.publisher_id

-- name: quarantine_anywhere
select milepost.microseconds(log_time)::text as "log_time|", coalesce(encode(key, 'hex'), 'null') collate "C" as "key|",
       encode(sha256(convert_to(headers::text, 'UTF8')), 'hex') collate "C" as "headers|",
       coalesce(encode(sha256(value), 'hex'), 'null') collate "C" as "value|", reason as "reason|"
from milepost.quarantine q
where status <> 'retried'
order by q.log_time, 2, 3, 4, 5

-- name: rows_expected
select coalesce(sum(reltuples) filter (where reltuples > 0), 0)::bigint
from pg_class
where oid = any(array['milepost.partitions', 'milepost.sessions', 'milepost.checkpoints', 'milepost.history',
                      'milepost.publishers', 'milepost.quarantine']::regclass[])
