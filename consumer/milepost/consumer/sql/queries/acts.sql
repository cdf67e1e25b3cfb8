-- name: acts
select act_id, at, login, acting_as, operator, application, host(client_address), what, details::text
from milepost.operator_acts
where (%b::timestamptz is null or at >= %b::timestamptz)
order by act_id
