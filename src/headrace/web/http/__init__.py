"""HTTP: events come in by POST and by webhooks of other systems, and readers in any language get them by GET.

Owns: access tokens, idempotency keys, hooks, and the web application that uses them. Promises: an event is answered for only after
its commit; under one idempotency key nothing is committed twice; a request acts in the namespace of its token or hook and nowhere
else, with the rights of that token and of the server's own role; of a token only the SHA-256 is stored, of a hook's secret only
a reference.

How a request is answered
-------------------------

    app.py              the routes
    authentication.py   the access token of a request; rate limits and readers' places
    request.py          headers and body, within their limits of bytes and time; errors as problem details
    event_requests.py   headers and body → events (CloudEvents structured, binary, batch; plain JSON; webhooks) → outbox, in one
                        transaction with the idempotency key
    schemes.py          webhooks: signature, then mapping → event
    reading.py          GET: long poll and server-sent events; what is new is read once for all
    databases.py        connections and listeners, opened at the first use; a short-lived cache of look-ups
    server.py           a server for the application in a thread of its own, for nodes"""

from headrace.web.http.access_tokens import (
    AccessToken as AccessToken,
    NewAccessToken as NewAccessToken,
    Right as Right,
    create_access_token as create_access_token,
    list_access_tokens as list_access_tokens,
    revoke_access_token as revoke_access_token,
)
from headrace.web.http.hooks import (
    Hook as Hook,
    alter_hook as alter_hook,
    create_hook as create_hook,
    drop_hook as drop_hook,
    get_hook as get_hook,
    list_hooks as list_hooks,
)
from headrace.web.http.schemes import (
    SCHEMES as SCHEMES,
    HeaderLookup as HeaderLookup,
    SignatureScheme as SignatureScheme,
    check_window as check_window,
    describe_mapping as describe_mapping,
    require_header as require_header,
    wrong_signature as wrong_signature,
)
from headrace.web.http.settings import IngestSettings as IngestSettings
from headrace.web.http.web import IngestServer as IngestServer, create_app as create_app, server_config as server_config
