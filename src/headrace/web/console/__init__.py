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

How to add a page
-----------------

1. Query: call the functions of the library where they exist (`headrace.log.topics.list_topics` …). A statement of the console's own
   is in its sql/queries.sql, over the views of schema `headrace` only, so that it works for every role; read it by `fetch_dicts` of
   tables.py.
2. Module pages/widgets.py:

       def list_widgets(view: View) -> Page:
           rows = view.collect(view.bind(widgets))
           columns = (Column("widget", link=view.link("/widgets", "widget")), Column("size", kind="number"))
           table = Table("widgets", columns, rows, empty="headrace widget create NAME")
           values = {"noun": "widget", "create_url": view.url("/widgets/create")}
           return Page("list.html", "Widgets", tables=(table,), values=values)

       ROUTES = (read("/widgets", list_widgets), change("/widgets/{widget}/pause", pause_widget, form=list_widgets))

   `view.collect` reads every selected shard in a read-only transaction as the person's role, adds the column "shard" where there are
   several, and makes a banner of a shard that is unreachable. `view.path["widget"]` is the part of the path, `view.query` holds the
   parameters of the URL. Everything that selects what is shown is a parameter of the URL.
   A kind of definition needs less: pages/definitions.py derives its pages from the fields of the kind; its module has a subclass of
   DefinitionPages with what is special to it, and its templates fill blocks of definition.html and definition_edit.html.
3. Template: list.html for a list that can be searched, else templates/widgets.html: `{% extends "base.html" %}`, then `{% block
   live %}` for what is renewed while the page is open, `{% block page %}` above and `{% block after %}` below it for what is
   not (forms, filters), `{% block tools %}` for the buttons beside the heading. The tables of the page are `tables.widgets`.
   Macros (macros.html): `ui.table(view, tables.widgets)`, `ui.search(view)`, `ui.facts(pairs)`, `ui.badge(state)`,
   `ui.time(at)`, `ui.form`, `ui.post`, `ui.input`, `ui.select`, `ui.textarea`, `ui.chart`, `ui.spark`,
   `ui.payload(view.mask(value), url)`, `ui.empty`. Forms at the end of each row of a table: `{% call(row) ui.table(view,
   tables.widgets) %}{{ ui.post(view, view.url(…), "Pause") }}{% endcall %}`. Text of users that is not in a table passes the
   filter `|cell` (one line) or `|lines`. A table masks its column `payload` by itself. No inline script, style or event
   attribute: the Content-Security-Policy blocks them. The sidebar is `NAVIGATION` in app.py.
4. Action: a function that gets the view and returns a sentence for the person:

       def pause_widget(view: View) -> Done:
           name = view.path["widget"]
           view.change("widget.pause", name, act=lambda conn: pause(conn, "widget", name), state=lambda conn: get_widget(conn, name))
           return Done(f"widget {name} is paused", view.url("/widgets"))

   `view.change` runs on every selected shard, in one transaction each: `state` before, `act`, `state` after, audit event. An error of
   headrace rolls it back and shows the page of `form=` again, with the message and the values that were typed (`view.form`).
   `view.preview(act)` runs something and rolls it back. In a template a form is
   `{% call ui.form(view, view.url("/widgets/" ~ name ~ "/pause")) %}<button>Pause</button>{% endcall %}`: it adds the token, and is
   not shown where the console is read-only.
5. Add the module to `PAGES` in app.py and, if it belongs in the sidebar, a line to `NAVIGATION` there.
6. Test tests/web/console/test_widgets.py with the fixtures of tests/web/console/conftest.py: `site` (the running console; filling.py fills its
   database) and `open_page(url)` (chromium; the test fails on any error or warning in the browser's console). Tests change objects of
   namespace `lab` only: `site.url("/widgets", namespace="lab")`. Add an address of the page to `PAGES` in test_looks.py (two widths,
   light and dark, axe, aria snapshot, screenshot), to addresses.py (hostile text, masks, shards, read-only pages) and to bench/console.py;
   all three fail without it. test_guard.py tries every changing route of every page as a read-only user and without a token by itself.

Mounting
--------

    app.mount("/headrace", create_app(targets, ConsoleSettings(login=HostLogin(who), hosts=("shop.example",))))   # FastAPI, Starlette
    create_app(targets, settings, base_path="/headrace")   # where the host passes whole paths on, as in Django's asgi.py
"""

from headrace.web.console.app import create_app
from headrace.web.console.login import (
    ConsoleSettings,
    HostLogin,
    Login,
    NoLogin,
    ProxyLogin,
    TokenLogin,
    User,
    new_token,
    read_settings,
)

__all__ = [
    "ConsoleSettings",
    "HostLogin",
    "Login",
    "NoLogin",
    "ProxyLogin",
    "TokenLogin",
    "User",
    "create_app",
    "new_token",
    "read_settings",
]
