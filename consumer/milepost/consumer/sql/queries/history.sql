-- The order of the first thirty columns is that of history in read.sql.

-- name: explained
-- a page of a session's events with what became of each; what explains it is looked up for the rows of the page alone
select e.*,
       coalesce(deletion.seq, latest.seq, event.seq, checkpoint.seq),
       coalesce(deletion.event_id, latest.event_id, event.event_id, checkpoint.event_id),
       coalesce(deletion.event_time, latest.event_time, event.event_time, checkpoint.event_time),
       policy.newest, (extract(epoch from policy.max_age) * 1000000)::bigint, policy.max_bytes,
       case when policy.session_id is not null then 'session' when policy.tenant_id is not null then 'tenant' end
from (
    select f.*
    from (
        select h.tenant_id, h.session_id, h.seq, h.kind::text, h.outcome::text, h.event_id, h.event_time, h.log_time,
               h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node, h.reason, h.framework_version,
               h.schema_version, h.pinned, h.size, h.sha256, h.source, h.publisher_id, h.publisher_seq, h.traceparent,
               h.tracestate, h.chain, h.labels, h.extensions, h.topic, h.partition, h."offset",
               case
                   when h.outcome <> 'applied' then h.outcome::text
                   when h.kind = 'session-deleted' then 'applied'
                   when c.seq is not null then 'live'
                   when s.deleted_seq > h.seq then 'deleted'
                   else 'pruned'
               end as became
        from milepost.history h
        left join milepost.sessions s on s.tenant_id = h.tenant_id and s.session_id = h.session_id
        left join milepost.checkpoints c
            on c.tenant_id = h.tenant_id and c.session_id = h.session_id and c.seq = h.seq
        where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b and h.seq > %(after_seq)b
    ) f
    where (%(run_id)b::uuid is null or f.run_id = %(run_id)b::uuid)
        and (%(kind)b::text is null or f.kind = %(kind)b::text)
        and (%(outcome)b::text is null or f.outcome = %(outcome)b::text)
        and (%(became)b::text is null or f.became = %(became)b::text)
        and (%(since)b::timestamptz is null or f.log_time >= %(since)b::timestamptz)
        and (%(until)b::timestamptz is null or f.log_time < %(until)b::timestamptz)
        and (%(event_since)b::timestamptz is null or f.event_time >= %(event_since)b::timestamptz)
        and (%(event_until)b::timestamptz is null or f.event_time < %(event_until)b::timestamptz)
    order by f.seq
    limit %(limit)b
) e
left join lateral (
    select d.seq, d.event_id, d.event_time
    from milepost.history d
    where e.became = 'deleted' and d.tenant_id = e.tenant_id and d.session_id = e.session_id and d.seq > e.seq
        and d.kind = 'session-deleted' and d.outcome = 'applied'
    order by d.seq
    limit 1
) deletion on true
left join lateral (
    select d.seq, d.event_id, d.event_time
    from milepost.history d
    where e.became = 'stale' and d.tenant_id = e.tenant_id and d.session_id = e.session_id and d.seq < e.seq
        and d.kind = 'session-deleted' and d.outcome = 'applied'
    order by d.seq desc
    limit 1
) latest on true
left join lateral (
    select o.seq, o.event_id, o.event_time
    from milepost.history o
    where e.became in ('duplicate', 'conflict') and o.event_id = e.event_id
        and o.tenant_id = e.tenant_id and o.session_id = e.session_id and o.seq < e.seq
    order by o.seq
    limit 1
) event on true
left join lateral (
    select o.seq, o.event_id, o.event_time
    from milepost.history o
    where e.became in ('duplicate', 'conflict') and event.seq is null
        and o.tenant_id = e.tenant_id and o.session_id = e.session_id and o.seq < e.seq
        and o.id_hash = milepost.id_hash(e.checkpoint_id, true) and o.checkpoint_id = e.checkpoint_id
    order by o.seq desc
    limit 1
) checkpoint on true
left join (
    select p.tenant_id, p.session_id, p.newest, p.max_age, p.max_bytes
    from milepost.retention_policies p
    where (p.tenant_id is null or p.tenant_id = %(tenant_id)b) and (p.session_id is null or p.session_id = %(session_id)b)
    order by p.tenant_id is null, p.session_id is null
    limit 1
) policy on true
order by e.seq

-- name: published
-- the event that published a checkpoint: of several, one that was applied, and of those the latest
select h.tenant_id, h.session_id, h.seq, h.kind::text, h.outcome::text, h.event_id, h.event_time, h.log_time,
       h.checkpoint_id, h.parent_id, h.run_id, h.step, h.next_node, h.reason, h.framework_version, h.schema_version,
       h.pinned, h.size, h.sha256, h.source, h.publisher_id, h.publisher_seq, h.traceparent, h.tracestate, h.chain,
       h.labels, h.extensions, h.topic, h.partition, h."offset"
from milepost.history h
where h.tenant_id = %(tenant_id)b and h.session_id = %(session_id)b
    and h.id_hash in (milepost.id_hash(%(checkpoint_id)b, true), milepost.id_hash(%(checkpoint_id)b, false))
    and h.checkpoint_id = %(checkpoint_id)b
    and (%(seq)b::int8 is null or h.seq = %(seq)b::int8)
order by h.outcome = 'applied' desc, h.seq desc
limit 1

-- name: log_identity
select min(cluster_id), min(topic), min(topic_id), count(*) from milepost.partitions
