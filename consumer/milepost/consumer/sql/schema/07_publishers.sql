-- one row per publisher instance and partition: what is missing is the highest number less the events seen
create table milepost.publishers (
    publisher_id uuid        not null,
    partition    integer     not null,
    source       text        not null,
    events       bigint      not null,
    highest_seq  bigint      not null,
    first_seen   timestamptz not null,
    last_seen    timestamptz not null,
    primary key (publisher_id, partition)
) with (fillfactor = 70);
