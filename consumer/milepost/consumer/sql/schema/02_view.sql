-- what this view is; one row
create table milepost.view (
    only_row    boolean     primary key default true check (only_row),
    view_id     uuid        not null default gen_random_uuid(),
    replay      json,
    recorded_at timestamptz not null default now()
);

comment on column milepost.view.view_id is 'Begins the name of the consumer group: two views never share partitions.';

comment on column milepost.view.replay is
    'What milepost replay was asked for, and whether it is complete; null for a view that was always live.';

insert into milepost.view default values;
