-- name: head
select s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id, milepost.microseconds(s.first_event_time),
       milepost.microseconds(s.last_event_time), s.live_checkpoints, s.live_bytes, milepost.microseconds(s.deleted_at),
       s.deleted_seq, s.chain
from milepost.sessions s
where s.tenant_id = %b and s.session_id = %b

-- name: history
-- the columns of history in audit.sql
select h.partition, h."offset", h.log_time, h.outcome::text, h.size, h.publisher_id, h.publisher_seq, h.source, h.tenant_id,
       h.session_id, h.seq, h.kind::text, h.event_id, h.event_time, h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node,
       h.reason, h.framework_version, h.schema_version, h.pinned, h.labels, h.traceparent, h.tracestate, h.extensions, h.sha256,
       h.chain, h.topic, h.recorded_at
from milepost.history h
where h.tenant_id = %b and h.session_id = %b
order by h.seq

-- name: checkpoints
select h.seq, h.sha256, uuid_send(h.event_id), h."offset",
       exists (select from milepost.checkpoints c
               where c.tenant_id = h.tenant_id and c.session_id = h.session_id and c.seq = h.seq)
from milepost.history h
where h.tenant_id = %b and h.session_id = %b and h.kind = 'checkpoint-created'
order by h.seq

-- name: state
select convert_to(c.state::text, 'UTF8')
from milepost.checkpoints c
where c.tenant_id = %b and c.session_id = %b and c.seq = %b::int8
