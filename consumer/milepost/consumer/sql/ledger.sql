create schema if not exists milepost;

create table if not exists milepost.migrations (
    number      integer     primary key check (number > 0),
    name        text        not null,
    sha256      bytea       not null,
    recorded_at timestamptz not null default now()
);
