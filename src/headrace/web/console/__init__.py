"""Console: the web pages of headrace.

Owns: pages, their forms and their audit. Promises: it only reads, except where a person submits a form; what a person sees and may
change is decided by the database, which is asked as the person's role; every change is written to the audit topic in the same
transaction; everything that comes from users is shown as text.

How a request is answered
-------------------------

    guard.py      checks host, login (login.py), read-only mode; adds the security headers
    app.py        the list of pages; finds the route
    routes.py     `read(path, function)` for pages, `change(path, function)` for forms (checks the CSRF token); renders pages, their
                  tables as files, errors, and the same page as a stream of server-sent events
    site.py       `Site`: what all requests share: connections, and the last half hour of rates and lag, in memory, for the charts
    view.py       `View`: who asks, for which shards and namespace; gives connections that act as this person's role, and writes every
                  change to the topic headrace.audit
    pages/x.py    one module per page: reads through the functions of the library, returns a `Page`
    templates/    x.html extends base.html and uses the macros of macros.html
    tables.py     `Table` and `Column`: shown as HTML, exported as JSON and CSV (`?format=csv`)
    texts.py      numbers, times, payloads, differences and hostile text for templates; masks hide fields of payloads
    static/       our own CSS and JavaScript; assets.py fetches htmx and uPlot into vendor/, which is not in git

docs/internals/recipes/console-page.md explains how to add a page, docs/console.md how to mount the console."""

from headrace.web.console.app import create_app as create_app
from headrace.web.console.login import (
    ConsoleSettings as ConsoleSettings,
    HostLogin as HostLogin,
    Login as Login,
    NoLogin as NoLogin,
    ProxyLogin as ProxyLogin,
    TokenLogin as TokenLogin,
    User as User,
    new_token as new_token,
    read_settings as read_settings,
)
