-- name: windows
-- the windows of retention as history tells them, while the states are still withheld
select h.tenant_id, h.session_id, h.seq, h.size, milepost.microseconds(h.log_time), h.pinned
from unnest(%b::text[], %b::text[], %b::int8[], %b::int8[]) as k (tenant_id, session_id, after_seq, newest)
cross join lateral (
    select *
    from milepost.history
    where tenant_id = k.tenant_id and session_id = k.session_id and seq > k.after_seq
        and kind = 'checkpoint-created' and outcome = 'applied'
    order by seq desc
    limit k.newest
) h
order by h.tenant_id, h.session_id, h.seq

-- name: missing
-- live checkpoints, by the policies, that have no row yet; in the order in which the log holds them
select survivor.partition, survivor."offset", survivor.seq
from (
    select h.*, policy.newest, policy.max_age, policy.max_bytes,
           row_number() over newest_first as number,
           sum(h.size) over newest_first as bytes,
           max(h.log_time) over (partition by h.tenant_id, h.session_id) as newest_time
    from milepost.sessions s
    join milepost.history h on h.tenant_id = s.tenant_id and h.session_id = s.session_id
        and h.seq > coalesce(s.deleted_seq, 0) and h.kind = 'checkpoint-created' and h.outcome = 'applied'
    cross join lateral (
        select p.newest, p.max_age, p.max_bytes
        from milepost.retention_policies p
        where (p.tenant_id is null or p.tenant_id = s.tenant_id) and (p.session_id is null or p.session_id = s.session_id)
        order by p.tenant_id is null, p.session_id is null
        limit 1
    ) policy
    where s.live_checkpoints > 0 and s.partition = any(%b::int4[])
    window newest_first as (partition by h.tenant_id, h.session_id order by h.seq desc)
) survivor
where (survivor.pinned or survivor.number = 1 or (
        survivor.number <= survivor.newest
        and (survivor.max_bytes is null or survivor.bytes <= survivor.max_bytes)
        and (survivor.max_age is null or survivor.log_time >= survivor.newest_time - survivor.max_age)))
    and not exists (
        select from milepost.checkpoints c
        where c.tenant_id = survivor.tenant_id and c.session_id = survivor.session_id and c.seq = survivor.seq)
order by survivor.partition, survivor."offset"

-- name: begin
update milepost.view set replay = %s::json

-- name: state
select replay::text from milepost.view

-- name: is_fresh
select not exists (select from milepost.partitions where next_offset > 0)

-- name: copy_policies
insert into milepost.retention_policies (tenant_id, session_id, newest, max_age, max_bytes) values (%s, %s, %s, %s, %s)
on conflict (tenant_id, session_id) do update
set newest = excluded.newest, max_age = excluded.max_age, max_bytes = excluded.max_bytes

-- name: measured
update milepost.partitions set retention_version = (select version from milepost.retention_version)

-- name: no_policies
delete from milepost.retention_policies
