revoke all on schema milepost from public;
revoke all on all functions in schema milepost from public;
grant execute on function milepost.at(bigint), milepost.microseconds(timestamptz), milepost.id_hash(text, boolean) to public;

-- Each table that names a tenant shows a reader that tenant's rows alone: set milepost.tenant_id first. The security is forced,
-- so that nobody but a superuser, or who has bypassrls, passes it without a policy; the owner's ones are below.
do $$
declare
    name text;
    is_owner constant text :=
        '(select pg_has_role(relowner, ''usage'') from pg_class where oid = ''milepost.history''::regclass)';
begin
    foreach name in array array['sessions', 'checkpoints', 'history', 'retention_policies'] loop
        execute format('alter table milepost.%I enable row level security', name);
        execute format('alter table milepost.%I force row level security', name);
        execute format('drop policy if exists owner_has_all on milepost.%I', name);
        execute format('drop policy if exists owner_adds on milepost.%I', name);
    end loop;
    -- whoever owns the tables now: a role named here would stay when they are handed on
    foreach name in array array['sessions', 'checkpoints', 'retention_policies'] loop
        execute format('create policy owner_has_all on milepost.%I using (%s) with check (%s)', name, is_owner, is_owner);
    end loop;
    -- no policy to update or delete: a second lock beside the trigger
    execute format('create policy owner_has_all on milepost.history for select using (%s)', is_owner);
    execute format('create policy owner_adds on milepost.history for insert with check (%s)', is_owner);
end
$$;

do $$
declare
    name text;
begin
    if exists (select from pg_roles where rolname = 'milepost_writer') then
        grant usage on schema milepost to milepost_writer;
        grant select on all tables in schema milepost to milepost_writer;
        grant insert, update, delete on milepost.sessions, milepost.checkpoints, milepost.publishers to milepost_writer;
        grant insert, update on milepost.partitions to milepost_writer;
        grant update (replay) on milepost.view to milepost_writer;
        grant insert on milepost.history, milepost.quarantine to milepost_writer;
        grant update (reason, detail, status, note, changed_by, changed_at) on milepost.quarantine to milepost_writer;
        -- who, when and where are never the writer's to say
        grant insert (what, details) on milepost.operator_acts to milepost_writer;
        foreach name in array array['sessions', 'checkpoints', 'history', 'retention_policies'] loop
            execute format('drop policy if exists writer_has_all on milepost.%I', name);
            execute format('drop policy if exists writer_adds on milepost.%I', name);
        end loop;
        foreach name in array array['sessions', 'checkpoints'] loop
            execute format('create policy writer_has_all on milepost.%I to milepost_writer using (true) with check (true)', name);
        end loop;
        create policy writer_has_all on milepost.history for select to milepost_writer using (true);
        create policy writer_adds on milepost.history for insert to milepost_writer with check (true);
        create policy writer_has_all on milepost.retention_policies for select to milepost_writer using (true);
    end if;
    if exists (select from pg_roles where rolname = 'milepost_reader') then
        grant usage on schema milepost to milepost_reader;
        grant select on milepost.sessions, milepost.checkpoints, milepost.history, milepost.partitions,
            milepost.retention_policies to milepost_reader;
        foreach name in array array['sessions', 'checkpoints', 'history', 'retention_policies'] loop
            execute format('drop policy if exists reader_has_tenant on milepost.%I', name);
        end loop;
        foreach name in array array['sessions', 'checkpoints', 'history'] loop
            execute format(
                'create policy reader_has_tenant on milepost.%I for select to milepost_reader '
                'using (tenant_id = current_setting(''milepost.tenant_id'', true))', name);
        end loop;
        -- the default belongs to everybody
        create policy reader_has_tenant on milepost.retention_policies for select to milepost_reader
            using (tenant_id is null or tenant_id = current_setting('milepost.tenant_id', true));
    end if;
end
$$;
