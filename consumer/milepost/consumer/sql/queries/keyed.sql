-- The reads with an integrity key. Each is one statement, so that heads and rows are of one moment. A row of the answer holds a
-- head and a checkpoint side by side, as they come, either of them null where the other ones are more. Ids, times and labels
-- come as bytes: what somebody wrote there by hand must not fail to load. The order of the columns is that of integrity/facts.py.

-- name: keyed_get
-- the named checkpoint with its state; when there is none, all of the session's without theirs
with head as (
    select 1::bigint as number, (select p.topic from milepost.partitions p limit 1), %(session_id)b::text,
           case when s.session_id is null then exists (
               select from milepost.history h where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b) end,
           s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
           timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
           timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
           s.pruned_seq, s.mac, s.mac_key
    from (values (1)) as one
    left join milepost.sessions s on s.tenant_id = %(tenant_id)b and s.session_id = %(session_id)b
),
wanted as materialized (
    select c.*
    from milepost.checkpoints c
    where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b
        and c.id_hash_0 = hashtextextended(%(checkpoint_id)b, 0)
        and c.id_hash_1 = hashtextextended(%(checkpoint_id)b, 1)
        and c.checkpoint_id = %(checkpoint_id)b
),
found as (
    select row_number() over () as number,
           c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id,
           uuid_send(c.run_id), c.step, c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version,
           c.pinned, c.size, c.sha256, timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition,
           c."offset", c.mac, c.mac_key,
           case when c.checkpoint_id = %(checkpoint_id)b then convert_to(c.state::text, 'UTF8') end
    from (
        select * from wanted
        union all
        select c.*
        from milepost.checkpoints c
        where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b and not exists (select from wanted)
    ) c
)
select head.*, found.* from head full join found on found.number = head.number

-- name: keyed_latest
with head as (
    select 1::bigint as number, (select p.topic from milepost.partitions p limit 1), %(session_id)b::text,
           case when s.session_id is null then exists (
               select from milepost.history h where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b) end,
           s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
           timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
           timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
           s.pruned_seq, s.mac, s.mac_key
    from (values (1)) as one
    left join milepost.sessions s on s.tenant_id = %(tenant_id)b and s.session_id = %(session_id)b
),
found as (
    select 1::bigint as number,
           c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id,
           uuid_send(c.run_id), c.step, c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version,
           c.pinned, c.size, c.sha256, timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition,
           c."offset", c.mac, c.mac_key,
           convert_to(c.state::text, 'UTF8')
    from milepost.checkpoints c
    where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b
    order by c.seq desc
    limit 1
)
select head.*, found.* from head full join found on found.number = head.number

-- name: keyed_list
with head as (
    select 1::bigint as number, (select p.topic from milepost.partitions p limit 1), %(session_id)b::text,
           case when s.session_id is null then exists (
               select from milepost.history h where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b) end,
           s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
           timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
           timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
           s.pruned_seq, s.mac, s.mac_key
    from (values (1)) as one
    left join milepost.sessions s on s.tenant_id = %(tenant_id)b and s.session_id = %(session_id)b
),
found as (
    select row_number() over () as number,
           c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id,
           uuid_send(c.run_id), c.step, c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version,
           c.pinned, c.size, c.sha256, timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition,
           c."offset", c.mac, c.mac_key
    from milepost.checkpoints c
    where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b
)
select head.*, found.* from head full join found on found.number = head.number

-- name: keyed_list_by_run
-- all rows of each session that has one of the run
with touched as materialized (
    select distinct c.session_id from milepost.checkpoints c where c.tenant_id = %(tenant_id)b and c.run_id = %(run_id)b::uuid
),
head as (
    select row_number() over () as number, (select p.topic from milepost.partitions p limit 1), t.session_id,
           s.session_id is null,
           s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
           timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
           timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
           s.pruned_seq, s.mac, s.mac_key
    from touched t
    left join milepost.sessions s on s.tenant_id = %(tenant_id)b and s.session_id = t.session_id
),
found as (
    select row_number() over () as number,
           c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id,
           uuid_send(c.run_id), c.step, c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version,
           c.pinned, c.size, c.sha256, timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition,
           c."offset", c.mac, c.mac_key
    from touched t
    join milepost.checkpoints c on c.tenant_id = %(tenant_id)b and c.session_id = t.session_id
)
select head.*, found.* from head full join found on found.number = head.number

-- name: keyed_session
with head as (
    select 1::bigint as number, (select p.topic from milepost.partitions p limit 1), %(session_id)b::text,
           case when s.session_id is null then exists (
               select from milepost.history h where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b) end,
           s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
           timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
           timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
           s.pruned_seq, s.mac, s.mac_key
    from (values (1)) as one
    left join milepost.sessions s on s.tenant_id = %(tenant_id)b and s.session_id = %(session_id)b
)
select head.* from head

-- name: keyed_sessions
select null::bigint, (select p.topic from milepost.partitions p limit 1), s.session_id, false,
       s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
           timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
           timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
           s.pruned_seq, s.mac, s.mac_key
from milepost.sessions s
where s.tenant_id = %(tenant_id)b and s.session_id > %(after)b
order by s.session_id
limit %(limit)b

-- What says which column was changed, once a MAC did not fit: history holds the same facts.

-- name: row_evidence
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id,
       uuid_send(c.run_id), c.step, c.next_node, timestamptz_send(c.event_time), c.framework_version, c.schema_version,
       c.pinned, c.size, c.sha256, timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition,
       c."offset", c.topic
from milepost.history c
where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b and c.seq = %(seq)b
    and c.kind = 'checkpoint-created' and c.outcome = 'applied'

-- name: head_evidence
with events as (
    select * from milepost.history h where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b
),
live as (
    select c.seq, c.size, c.checkpoint_id
    from milepost.checkpoints c
    where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b
),
first as (select * from events order by seq limit 1),
last as (select * from events order by seq desc limit 1),
newest as (select * from live order by seq desc limit 1),
deleted as (select * from events where kind = 'session-deleted' and outcome = 'applied' order by seq desc limit 1)
select %(tenant_id)b::text, %(session_id)b::text, last.partition, last.seq, newest.seq, newest.checkpoint_id,
       timestamptz_send(first.event_time), timestamptz_send(last.event_time), (select count(*) from live),
       (select coalesce(sum(size), 0)::bigint from live), timestamptz_send(deleted.event_time), deleted.seq,
       uuid_send((select event_id from events order by event_id desc limit 1)),
       (select max(checkpoint_id) from events where kind = 'checkpoint-created' and outcome = 'applied'), last.chain,
       coalesce((
           select max(e.seq)
           from events e
           where e.kind = 'checkpoint-created' and e.outcome = 'applied' and not e.pinned
               and e.seq > coalesce(deleted.seq, 0) and not exists (select from live where live.seq = e.seq)), 0),
       last.topic
from first cross join last left join newest on true left join deleted on true

-- name: live_evidence
-- what must be live by a head
select h.seq, h.checkpoint_id
from milepost.history h
where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b
    and h.kind = 'checkpoint-created' and h.outcome = 'applied'
    and h.seq > %(deleted_seq)b and (h.pinned or h.seq > %(pruned_seq)b)
order by h.seq

-- name: keyed_history
select h.seq, h.kind::text, h.outcome::text, uuid_send(h.event_id), timestamptz_send(h.event_time), h.source, h.checkpoint_id,
       h.parent_id, uuid_send(h.run_id), h.step, h.next_node, h.reason, h.framework_version, h.schema_version, h.pinned,
       convert_to(h.labels::text, 'UTF8'), uuid_send(h.publisher_id), h.publisher_seq, h.traceparent, h.tracestate,
       convert_to(h.extensions::text, 'UTF8'), h.size, h.sha256, h.chain
from milepost.history h
where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b
    and h.seq > %(after_seq)b and h.seq <= %(last_seq)b
order by h.seq
limit %(limit)b
