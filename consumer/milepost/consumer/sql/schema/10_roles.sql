-- roles belong to the whole server: they may be there already, or somebody may be making them just now
do $$
begin
    if not exists (select from pg_roles where rolname = 'milepost_writer') then
        begin
            begin
                -- COPY into a table with row-level security needs this attribute; the writer writes every tenant's rows
                create role milepost_writer nologin bypassrls;
            exception when insufficient_privilege then
                -- without it the writer goes through temporary tables, which is slower
                create role milepost_writer nologin;
            end;
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise warning 'the role milepost_writer could not be made, which takes createrole (create role milepost_writer nologin bypassrls; then milepost setup again); until then the consumer has to connect as the owner of the tables';
        end;
    end if;
    if not exists (select from pg_roles where rolname = 'milepost_reader') then
        begin
            create role milepost_reader nologin;
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise warning 'the role milepost_reader could not be made, which takes createrole (create role milepost_reader nologin; then milepost setup again)';
        end;
    end if;
end
$$;
