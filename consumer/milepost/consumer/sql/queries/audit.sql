-- What milepost audit verify reads. Ids and times as the bytes and the integers that they are (rows.py), or by uuid_send and
-- timestamptz_send: any hand-made value has those, too.
-- `since` has an offset for each partition, by its number plus one: rows below it are not verified, only looked at.

-- name: partitions
select partition, cluster_id, topic, topic_id, next_offset, timestamptz_send(log_time), events, applied, duplicates, stale,
       conflicts, quarantined, state_bytes, retention_version, digest
from milepost.partitions
order by milepost.partitions.partition

-- name: versions
select version from milepost.retention_version

-- name: policy_acts
-- when the policy of each scope was last changed; a change by hand may have moved a policy from one scope to another
select scope.details ->> 'tenant_id', scope.details ->> 'session_id', timestamptz_send(max(a.at))
from milepost.operator_acts a
cross join lateral (
    select a.details union all select a.details -> 'before' where json_typeof(a.details -> 'before') = 'object'
) as scope (details)
where a.what like 'retention %%'
group by 1, 2

-- name: protections
-- what keeps history as it is, and tenants apart: each with whether it stands
select 'history', 'trigger history_is_append_only',
       exists (select from pg_trigger t
               where t.tgrelid = 'milepost.history'::regclass and t.tgname = 'history_is_append_only'
                   and t.tgfoid = 'milepost.refuse_change'::regproc and t.tgenabled in ('O', 'A')
                   and t.tgqual is null and t.tgattr = ''
                   -- before, for each statement; delete, update and truncate
                   and t.tgtype & 63 = 2 + 8 + 16 + 32)
union all
select c.relname, 'row-level security', c.relrowsecurity and c.relforcerowsecurity
from pg_class c
where c.oid = any(array['milepost.sessions', 'milepost.checkpoints', 'milepost.history']::regclass[])
union all
select 'history', 'no ' || lower(privilege) || ' by ' || name,
       not case privilege when 'UPDATE' then has_any_column_privilege(name, 'milepost.history', privilege)
                          else has_table_privilege(name, 'milepost.history', privilege) end
from (select rolname from pg_roles where rolname in ('milepost_writer', 'milepost_reader') union all select 'public') r (name)
cross join unnest(array['UPDATE', 'DELETE', 'TRUNCATE']) as privilege
order by 1, 2

-- name: sees_all
-- the security is forced, so that it is active for the owner, too, whose policy lets all rows through, as the writer's does
select not row_security_active('milepost.history')
    or exists (select from pg_roles r
               where (r.rolname = 'milepost_writer'
                      or r.oid = (select relowner from pg_class where oid = 'milepost.history'::regclass))
                   and pg_has_role(r.oid, 'usage'))

-- name: history
-- of the sessions from one on, up to another one
select h.partition, h."offset", h.log_time, h.outcome::text, h.size, h.publisher_id, h.publisher_seq, h.source, h.tenant_id,
       h.session_id, h.seq, h.kind::text, h.event_id, h.event_time, h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node,
       h.reason, h.framework_version, h.schema_version, h.pinned, h.labels, h.traceparent, h.tracestate, h.extensions, h.sha256,
       h.chain, h.topic, h.recorded_at
from milepost.history h
where (h.tenant_id, h.session_id) >= (%b, %b) and (%b::text is null or (h.tenant_id, h.session_id) < (%b, %b))
order by h.tenant_id, h.session_id, h.seq

-- name: boundaries
-- the sessions at which these shares of all events are reached
with counted as materialized (
    select tenant_id, session_id, sum(weight) over (order by tenant_id, session_id) as reached, sum(weight) over () as total
    from milepost.sessions, lateral (select least(greatest(last_seq, 1), 4294967296) as weight) w
)
select b.tenant_id, b.session_id
from unnest(%b::float8[]) with ordinality as f (share, number)
cross join lateral (
    select tenant_id, session_id
    from counted
    where reached >= f.share * total
    order by tenant_id, session_id
    limit 1
) b
order by f.number

-- name: history_since
-- of the sessions with rows to verify: those rows, and before them what they hang on: the predecessor, the first row, the
-- latest deletion's and the live ones'
with touched as materialized (
    select tenant_id, session_id, min(seq) as first
    from milepost.history
    where "offset" >= coalesce((%b::int8[])[partition + 1], 0)
    group by tenant_id, session_id
), wanted as (
    select t.tenant_id, t.session_id, h.seq
    from touched t
    join milepost.history h on h.tenant_id = t.tenant_id and h.session_id = t.session_id and h.seq >= t.first - 1
    union
    select t.tenant_id, t.session_id, 1 from touched t
    union
    select t.tenant_id, t.session_id, s.deleted_seq
    from touched t
    join milepost.sessions s on s.tenant_id = t.tenant_id and s.session_id = t.session_id and s.deleted_seq < t.first
    union
    select t.tenant_id, t.session_id, c.seq
    from touched t
    join milepost.checkpoints c on c.tenant_id = t.tenant_id and c.session_id = t.session_id and c.seq < t.first
)
select h.partition, h."offset", h.log_time, h.outcome::text, h.size, h.publisher_id, h.publisher_seq, h.source, h.tenant_id,
       h.session_id, h.seq, h.kind::text, h.event_id, h.event_time, h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node,
       h.reason, h.framework_version, h.schema_version, h.pinned, h.labels, h.traceparent, h.tracestate, h.extensions, h.sha256,
       h.chain, h.topic, h.recorded_at
from wanted w
join milepost.history h on h.tenant_id = w.tenant_id and h.session_id = w.session_id and h.seq = w.seq
order by h.tenant_id, h.session_id, h.seq

-- name: heads
select s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
       timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
       timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain, s.pruned_seq,
       s.mac, s.mac_key
from milepost.sessions s
where (s.tenant_id, s.session_id) >= (%b, %b) and (%b::text is null or (s.tenant_id, s.session_id) < (%b, %b))
order by s.tenant_id, s.session_id

-- name: heads_since
with touched as materialized (
    select distinct tenant_id, session_id
    from milepost.history
    where "offset" >= coalesce((%b::int8[])[partition + 1], 0)
)
select s.tenant_id, s.session_id, s.partition, s.last_seq, s.newest_seq, s.newest_checkpoint_id,
       timestamptz_send(s.first_event_time), timestamptz_send(s.last_event_time), s.live_checkpoints, s.live_bytes,
       timestamptz_send(s.deleted_at), s.deleted_seq, uuid_send(s.max_event_id), s.max_checkpoint_id, s.chain, s.pruned_seq,
       s.mac, s.mac_key
from touched t
join milepost.sessions s on s.tenant_id = t.tenant_id and s.session_id = t.session_id
order by s.tenant_id, s.session_id

-- name: checkpoints
-- the server makes the digest of a state's bytes, once: offset 0 keeps it from reading them twice
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id, uuid_send(c.run_id), c.step,
       c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version, c.pinned, c.size, c.sha256,
       timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition, c."offset", c.mac, c.mac_key,
       octet_length(published.state), sha256(published.state)
from milepost.checkpoints c
cross join lateral (select convert_to(c.state::text, 'UTF8') as state offset 0) published
where (c.tenant_id, c.session_id) >= (%b, %b) and (%b::text is null or (c.tenant_id, c.session_id) < (%b, %b))
order by c.tenant_id, c.session_id, c.seq

-- name: checkpoints_since
with touched as materialized (
    select distinct tenant_id, session_id
    from milepost.history
    where "offset" >= coalesce((%b::int8[])[partition + 1], 0)
), live as materialized (
    select c.tenant_id, c.session_id, c.seq
    from milepost.checkpoints c
    where exists (select from touched t where t.tenant_id = c.tenant_id and t.session_id = c.session_id)
        or c."offset" >= coalesce((%b::int8[])[c.partition + 1], 0)
)
select c.tenant_id, c.session_id, c.seq, c.checkpoint_id, uuid_send(c.event_id), c.parent_id, uuid_send(c.run_id), c.step,
       c.next_node, timestamptz_send(c.created_at), c.framework_version, c.schema_version, c.pinned, c.size, c.sha256,
       timestamptz_send(c.log_time), convert_to(c.labels::text, 'UTF8'), c.partition, c."offset", c.mac, c.mac_key,
       octet_length(published.state), sha256(published.state)
from live
join milepost.checkpoints c on c.tenant_id = live.tenant_id and c.session_id = live.session_id and c.seq = live.seq
cross join lateral (select convert_to(c.state::text, 'UTF8') as state offset 0) published
order by c.tenant_id, c.session_id, c.seq

-- name: same_events
-- of each event the first one before it in its session with the same id
select k.number, h.seq, h.kind::text, h.checkpoint_id, h.sha256
from unnest(%b::int4[], %b::text[], %b::text[], %b::int8[], %b::uuid[]) as k (number, tenant_id, session_id, seq, event_id)
cross join lateral (
    select *
    from milepost.history e
    where (e.event_id, e.tenant_id, e.session_id, e.seq) > (k.event_id, k.tenant_id, k.session_id, 0)
        and (e.event_id, e.tenant_id, e.session_id, e.seq) < (k.event_id, k.tenant_id, k.session_id, k.seq)
    order by e.event_id, e.tenant_id, e.session_id, e.seq
    limit 1
) h

-- name: same_checkpoints
-- of each event the latest one before it in its session that was applied with the same checkpoint id
select k.number, h.seq, h.kind::text, h.checkpoint_id, h.sha256
from unnest(%b::int4[], %b::text[], %b::text[], %b::int8[], %b::text[]) as k (number, tenant_id, session_id, seq, checkpoint_id)
cross join lateral (
    select *
    from milepost.history e
    where (e.id_hash, e.tenant_id, e.session_id, e.seq)
            > (milepost.id_hash(k.checkpoint_id, true), k.tenant_id, k.session_id, 0)
        and (e.id_hash, e.tenant_id, e.session_id, e.seq)
            < (milepost.id_hash(k.checkpoint_id, true), k.tenant_id, k.session_id, k.seq)
        and e.id_hash is not null and e.checkpoint_id = k.checkpoint_id
    order by e.id_hash desc, e.tenant_id desc, e.session_id desc, e.seq desc
    limit 1
) h

-- name: places
-- history in the order of the log, of some partitions, and, when asked for, of those that the view does not have: the first
-- columns of `history`
select h.partition, h."offset", h.log_time, h.outcome::text, h.size, h.publisher_id, h.publisher_seq, h.source
from milepost.history h
where h."offset" >= coalesce((%b::int8[])[h.partition + 1], 0)
    and (h.partition = any(%b::int4[]) or (%b and h.partition <> all(%b::int4[])))
order by h.partition, h."offset"

-- name: places_whole
select h.partition, h."offset", h.log_time, h.outcome::text, h.size, h.publisher_id, h.publisher_seq, h.source, h.tenant_id,
       h.session_id, h.seq, h.kind::text, h.event_id, h.event_time, h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node,
       h.reason, h.framework_version, h.schema_version, h.pinned, h.labels, h.traceparent, h.tracestate, h.extensions, h.sha256,
       h.chain, h.topic, h.recorded_at
from milepost.history h
where h."offset" >= coalesce((%b::int8[])[h.partition + 1], 0)
    and (h.partition = any(%b::int4[]) or (%b and h.partition <> all(%b::int4[])))
order by h.partition, h."offset"

-- name: quarantine
select q.partition, q."offset", timestamptz_send(q.log_time), q.topic, q.status, q.reason, q.key, q.value,
       convert_to(q.headers::text, 'UTF8')
from milepost.quarantine q
where q."offset" >= coalesce((%b::int8[])[q.partition + 1], 0)
    and (q.partition = any(%b::int4[]) or (%b and q.partition <> all(%b::int4[])))
order by q.partition, q."offset"

-- name: publishers
select uuid_send(p.publisher_id), p.source, p.events, p.highest_seq, timestamptz_send(p.first_seen),
       timestamptz_send(p.last_seen)
from milepost.publishers p
where p.partition = %b
order by p.publisher_id

-- name: publishers_elsewhere
select uuid_send(p.publisher_id), p.partition
from milepost.publishers p
where not p.partition = any(%b::int4[])
order by p.publisher_id, p.partition

-- name: rows_expected
select oid::regclass::text, greatest(reltuples, 0)::bigint
from pg_class
where oid = any(array['milepost.history', 'milepost.sessions', 'milepost.checkpoints', 'milepost.quarantine']::regclass[])
