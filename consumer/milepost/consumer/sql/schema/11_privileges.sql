revoke all on schema milepost from public;
revoke all on all functions in schema milepost from public;
grant execute on function milepost.at(bigint), milepost.microseconds(timestamptz) to public;

-- each table that names a tenant shows a reader that tenant's rows alone: set milepost.tenant_id first
alter table milepost.sessions enable row level security;
alter table milepost.checkpoints enable row level security;
alter table milepost.history enable row level security;

do $$
declare
    name text;
begin
    if exists (select from pg_roles where rolname = 'milepost_writer') then
        grant usage on schema milepost to milepost_writer;
        grant select on all tables in schema milepost to milepost_writer;
        grant select on milepost.retention_version to milepost_writer;
        grant insert, update, delete on milepost.sessions, milepost.checkpoints, milepost.publishers to milepost_writer;
        grant insert, update on milepost.partitions to milepost_writer;
        grant update (replay) on milepost.view to milepost_writer;
        grant insert on milepost.history, milepost.quarantine to milepost_writer;
        grant update (reason, detail, status, note, changed_by, changed_at) on milepost.quarantine to milepost_writer;
        foreach name in array array['sessions', 'checkpoints', 'history'] loop
            execute format('drop policy if exists writer_has_all on milepost.%I', name);
            execute format('create policy writer_has_all on milepost.%I to milepost_writer using (true) with check (true)', name);
        end loop;
    end if;
    if exists (select from pg_roles where rolname = 'milepost_reader') then
        grant usage on schema milepost to milepost_reader;
        grant select on milepost.sessions, milepost.checkpoints, milepost.history, milepost.partitions to milepost_reader;
        foreach name in array array['sessions', 'checkpoints', 'history'] loop
            execute format('drop policy if exists reader_has_tenant on milepost.%I', name);
            execute format(
                'create policy reader_has_tenant on milepost.%I for select to milepost_reader '
                'using (tenant_id = current_setting(''milepost.tenant_id'', true))', name);
        end loop;
    end if;
end
$$;
