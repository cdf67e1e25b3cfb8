-- what this view is; one row
create table milepost.view (
    only_row    boolean     primary key default true check (only_row),
    view_id     uuid        not null default gen_random_uuid(),
    recorded_at timestamptz not null default now()
);

comment on column milepost.view.view_id is 'Names the consumer group of this view: two views never share partitions.';

insert into milepost.view default values;
