create schema if not exists milepost;

comment on schema milepost is
    'A view of the log in Kafka: it can be dropped and rebuilt by milepost replay.';

create type milepost.event_kind as enum ('checkpoint-created', 'session-deleted');

create type milepost.event_outcome as enum ('applied', 'duplicate', 'stale', 'conflict');

-- times travel as microseconds since 1970; in two parts, since interval arithmetic goes through double precision
create function milepost.at(microseconds bigint) returns timestamptz
    language sql immutable strict parallel safe
return timestamptz '1970-01-01 00:00:00+00'
    + (microseconds / 1000000) * interval '1 second'
    + (microseconds % 1000000) * interval '1 microsecond';

-- stands for a checkpoint id in an index, where 512 characters could be too many; the lowest bit says whether the event was applied
create function milepost.id_hash(checkpoint_id text, is_applied boolean) returns bigint
    language sql immutable strict parallel safe
return (hashtextextended(checkpoint_id, 0) & ~1::bigint) | is_applied::integer;

create function milepost.microseconds(moment timestamptz) returns bigint
    language sql immutable strict parallel safe
return (extract(epoch from moment) * 1000000)::bigint;
