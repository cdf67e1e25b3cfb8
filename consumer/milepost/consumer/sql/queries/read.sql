-- The order of the columns is that of the fields in views.py. The topic is the same in every partition of a view.
-- convert_to gives the state's bytes as they were published, whatever the encoding and the formats of the connection.

-- name: get
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, c.event_id, c.parent_id, c.run_id, c.step, c.next_node,
       c.created_at, c.framework_version, c.schema_version, c.pinned, c.size, c.sha256, c.log_time, c.labels,
       (select p.topic from milepost.partitions p limit 1), c.partition, c."offset",
       convert_to(c.state::text, 'UTF8')
from milepost.checkpoints c
where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b
    and c.id_hash_0 = hashtextextended(%(checkpoint_id)b, 0)
    and c.id_hash_1 = hashtextextended(%(checkpoint_id)b, 1)
    and c.checkpoint_id = %(checkpoint_id)b

-- name: latest
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, c.event_id, c.parent_id, c.run_id, c.step, c.next_node,
       c.created_at, c.framework_version, c.schema_version, c.pinned, c.size, c.sha256, c.log_time, c.labels,
       (select p.topic from milepost.partitions p limit 1), c.partition, c."offset",
       convert_to(c.state::text, 'UTF8')
from milepost.checkpoints c
where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b
order by c.seq desc
limit 1

-- name: list_oldest_first
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, c.event_id, c.parent_id, c.run_id, c.step, c.next_node,
       c.created_at, c.framework_version, c.schema_version, c.pinned, c.size, c.sha256, c.log_time, c.labels,
       (select p.topic from milepost.partitions p limit 1), c.partition, c."offset"
from milepost.checkpoints c
where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b and c.seq > %(after_seq)b
    and (%(run_id)b::uuid is null or c.run_id = %(run_id)b::uuid)
order by c.seq
limit %(limit)b

-- name: list_newest_first
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, c.event_id, c.parent_id, c.run_id, c.step, c.next_node,
       c.created_at, c.framework_version, c.schema_version, c.pinned, c.size, c.sha256, c.log_time, c.labels,
       (select p.topic from milepost.partitions p limit 1), c.partition, c."offset"
from milepost.checkpoints c
where c.tenant_id = %(tenant_id)b and c.session_id = %(session_id)b and c.seq > %(after_seq)b
    and (%(run_id)b::uuid is null or c.run_id = %(run_id)b::uuid)
order by c.seq desc
limit %(limit)b

-- name: list_by_run
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, c.event_id, c.parent_id, c.run_id, c.step, c.next_node,
       c.created_at, c.framework_version, c.schema_version, c.pinned, c.size, c.sha256, c.log_time, c.labels,
       (select p.topic from milepost.partitions p limit 1), c.partition, c."offset"
from milepost.checkpoints c
where c.tenant_id = %(tenant_id)b and c.run_id = %(run_id)b::uuid
order by c.log_time, c.session_id, c.seq
limit %(limit)b

-- name: session
select s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
       s.first_event_time, s.last_event_time, s.live_checkpoints, s.live_bytes, s.deleted_at, s.deleted_seq, s.chain
from milepost.sessions s
where s.tenant_id = %(tenant_id)b and s.session_id = %(session_id)b

-- name: sessions
select s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
       s.first_event_time, s.last_event_time, s.live_checkpoints, s.live_bytes, s.deleted_at, s.deleted_seq, s.chain
from milepost.sessions s
where s.tenant_id = %(tenant_id)b and s.session_id > %(after)b
order by s.session_id
limit %(limit)b

-- name: history
select h.tenant_id, h.session_id, h.seq, h.kind::text, h.outcome::text, h.event_id, h.event_time, h.log_time,
       h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node, h.reason, h.framework_version, h.schema_version,
       h.pinned, h.size, h.sha256, h.source, h.publisher_id, h.publisher_seq, h.traceparent, h.tracestate, h.chain,
       h.labels, h.extensions, h.topic, h.partition, h."offset"
from milepost.history h
where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b and h.seq > %(after_seq)b
order by h.seq
limit %(limit)b

-- name: next_offset
select p.topic, (select q.next_offset from milepost.partitions q where q.partition = %(partition)b)
from milepost.partitions p
limit 1

-- name: is_restricted
select row_security_active('milepost.checkpoints')

-- name: restrict
select set_config('milepost.tenant_id', %(tenant_id)b, true)
