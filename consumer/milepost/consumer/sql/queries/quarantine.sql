-- name: list
select topic, partition, "offset", milepost.microseconds(log_time), key, octet_length(value), reason, detail, status,
       note, changed_by, milepost.microseconds(changed_at), milepost.microseconds(recorded_at)
from milepost.quarantine
where (%b::text is null or reason = %b) and (%b::text is null or status = %b)
order by partition, "offset"

-- name: find
select topic, partition, "offset", milepost.microseconds(log_time), key, octet_length(value), reason, detail, status,
       note, changed_by, milepost.microseconds(changed_at), milepost.microseconds(recorded_at), headers::text, value
from milepost.quarantine
where partition = %b::int4 and "offset" = %b::int8 and (%b::text is null or topic = %b)

-- name: dismiss
update milepost.quarantine
set status = 'dismissed', note = %s, changed_by = %s, changed_at = now()
where partition = %s and "offset" = %s and status = 'open'

-- name: partitions
select count(*) from milepost.partitions

-- name: lock_partition
select next_offset from milepost.partitions where partition = %s for update

-- name: earlier
select "offset"
from milepost.quarantine
where partition = %s and "offset" < %s and key = %s and status <> 'retried'
order by "offset"

-- name: last_event
select h.partition, h."offset"
from milepost.sessions s
join milepost.history h on h.tenant_id = s.tenant_id and h.session_id = s.session_id and h.seq = s.last_seq
where s.tenant_id = %s and s.session_id = %s

-- name: move_totals
update milepost.partitions
set applied = applied + %s,
    duplicates = duplicates + %s,
    stale = stale + %s,
    conflicts = conflicts + %s,
    quarantined = quarantined - 1,
    state_bytes = state_bytes + %s,
    epoch = epoch + 1,
    recorded_at = now()
where partition = %s

-- name: retried
update milepost.quarantine
set status = 'retried', note = %s, changed_by = %s, changed_at = now()
where partition = %s and "offset" = %s

-- name: still_refused
update milepost.quarantine
set reason = %s, detail = %s
where partition = %s and "offset" = %s

-- name: tried
update milepost.quarantine
set note = %s, changed_by = %s, changed_at = now()
where partition = %s and "offset" = %s and status = 'open'
