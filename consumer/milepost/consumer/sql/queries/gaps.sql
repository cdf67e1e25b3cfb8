-- name: publishers
select p.publisher_id, min(p.source), sum(p.events)::bigint, max(p.highest_seq), min(p.first_seen), max(p.last_seen)
from milepost.publishers p
group by p.publisher_id
order by min(p.first_seen), p.publisher_id

-- name: missing
select coalesce(sum(missing), 0)::bigint
from (
    select greatest(max(p.highest_seq) - sum(p.events), 0) as missing
    from milepost.publishers p
    group by p.publisher_id
) as each_publisher

-- name: positions
select partition, next_offset from milepost.partitions
