-- name: page
select tenant_id, session_id, partition
from milepost.sessions
where (tenant_id, session_id) > (%s, %s)
order by tenant_id, session_id
limit %s

-- name: lock
-- a consumer holds the partition's row first, too: whoever does is alone with the partition's sessions
select topic from milepost.partitions where partition = %s for update

-- name: heads
select s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
       timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
       timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain,
       s.pruned_seq, s.mac, s.mac_key
from unnest(%b::text[], %b::text[]) as k (tenant_id, session_id)
join milepost.sessions s on s.tenant_id = k.tenant_id and s.session_id = k.session_id

-- name: sign_heads
update milepost.sessions s
set mac = n.mac, mac_key = n.mac_key
from unnest(%b::text[], %b::text[], %b::bytea[], %b::bytea[]) as n (tenant_id, session_id, mac, mac_key)
where s.tenant_id = n.tenant_id and s.session_id = n.session_id

-- name: sign_rows
update milepost.checkpoints c
set mac = n.mac, mac_key = n.mac_key
from unnest(%b::text[], %b::text[], %b::int8[], %b::bytea[], %b::bytea[]) as n (tenant_id, session_id, seq, mac, mac_key)
where c.tenant_id = n.tenant_id and c.session_id = n.session_id and c.seq = n.seq

-- name: void_heads
-- what a consumer remembers of these sessions; it reads them again, and finds them signed
update milepost.partitions set epoch = epoch + 1, recorded_at = now() where partition = %s

-- name: left_over
select (select count(*) from milepost.sessions where mac_key is distinct from %b),
       (select count(*) from milepost.checkpoints where mac_key is distinct from %b)

-- name: sessions_expected
select greatest(reltuples, 0)::bigint from pg_class where oid = 'milepost.sessions'::regclass
