-- what people did to the view, for ever; the log knows nothing of it
create table milepost.operator_acts (
    act_id         bigint      primary key generated always as identity,
    at             timestamptz not null default clock_timestamp(),
    login          text        not null default session_user,
    acting_as      text        not null default coalesce(nullif(current_setting('role'), 'none'), session_user),
    operator       text        default nullif(current_setting('milepost.operator', true), ''),
    application    text        default current_setting('application_name'),
    client_address inet        default inet_client_addr(),
    what           text        not null check (length(what) between 1 and 100),
    details        json        not null
);

comment on table milepost.operator_acts is
    'Written in the transaction of the act, by triggers where a table tells. Who, when and where are the server''s word, but for operator.';
comment on column milepost.operator_acts.acting_as is 'The role taken on by SET ROLE, otherwise the login.';
comment on column milepost.operator_acts.operator is 'Who sits there, as the client says it: user and host of the machine.';
comment on column milepost.operator_acts.client_address is 'Null for a connection through a socket of the server''s own machine.';

create trigger operator_acts_are_append_only
    before update or delete or truncate on milepost.operator_acts
    for each statement execute function milepost.refuse_change();

-- verification goes by these acts, so nobody but the tables' own triggers, which run as the owner, may say that there was one
create function milepost.refuse_forged_act() returns trigger
    language plpgsql
    set search_path = pg_catalog
as $$
begin
    if not pg_has_role((select relowner from pg_class where oid = tg_relid), 'usage') then
        raise exception 'an act of % is refused: expected it from the trigger of its table, found it inserted by %',
            split_part(new.what, ' ', 1), current_user
            using errcode = 'insufficient_privilege';
    end if;
    return new;
end
$$;

create trigger acts_of_tables_are_theirs
    before insert on milepost.operator_acts
    for each row when (new.what ~* '^\s*(retention|quarantine)')
    execute function milepost.refuse_forged_act();
