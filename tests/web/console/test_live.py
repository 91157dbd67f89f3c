"""A live update changes a page in place: whatever the reader opened, scrolled to, selected or typed is there afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, Route

from tests.web.console.addresses import page_addresses
from tests.web.console.conftest import Pages, Running

# What a reader does: opens everything, scrolls the page and its parts, types into the first field, selects a text. Remembers all of it,
# and the headings of what the page shows.
READ = """() => {
  const live = document.getElementById("live");
  const folded = [...document.querySelectorAll("main details")];
  const changed = folded.map((one) => { one.open = !one.open; return one; });
  const scrolled = [...live.querySelectorAll("*")].filter((one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight)
    .map((one) => { one.scrollLeft = 7; one.scrollTop = 5; return { one, left: one.scrollLeft, top: one.scrollTop }; })
    .filter(({ left, top }) => left || top);
  const field = [...document.querySelectorAll("main input:not([type=hidden]), main textarea")].find((one) => one.checkVisibility());
  if (field) {
    field.focus();
    field.value = "4711";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    if (field.selectionStart !== null) field.setSelectionRange(1, 3);
  }
  window.scrollTo(0, 40);
  const parts = [...live.querySelectorAll("h2, dt, th")].map((one) => one.textContent.trim());
  window.reader = { parts, states: changed.map((one) => ({ one, open: one.open })), scrolled, field };
}"""
SELECT = """() => {
  const live = document.getElementById("live");
  const texts = document.createTreeWalker(live, NodeFilter.SHOW_TEXT, (node) =>
    node.data.trim() && node.parentElement.checkVisibility() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP);
  let node = null;
  // The last text of the page: every row above it may move it.
  while (texts.nextNode()) node = texts.currentNode;
  if (!node) return;
  const start = node.data.search(/\\S/);
  document.getSelection().setBaseAndExtent(node, start, node, start + node.data.trim().length);
  window.reader.text = document.getSelection().toString();
  window.reader.node = node;
}"""
# The next state of the page: each table and list begins with a row that was not there, and every number has grown.
NEXT = """async () => {
  const text = await (await fetch(document.getElementById("live").dataset.part)).text();
  const next = new DOMParser().parseFromString(text, "text/html");
  for (const first of next.querySelectorAll("tbody > tr:first-child, ol > li:first-child, ul > li:first-child")) {
    const added = first.cloneNode(true);
    for (const one of [added, ...added.querySelectorAll("[id]")]) if (one.id) one.id += "-new";
    first.before(added);
  }
  for (const number of next.querySelectorAll(".stat .number, td.num, .count")) number.textContent += "1";
  for (const alert of next.querySelectorAll("p.alert")) alert.remove();
  return next.body.innerHTML;
}"""
LOST = """() => {
  const { parts, states, scrolled, field, text, node } = window.reader;
  const shown = new Set([...document.querySelectorAll("#live :is(h2, dt, th)")].map((one) => one.textContent.trim()));
  const lost = parts.filter((part) => !shown.has(part)).map((part) => `part ${part}`);
  for (const { one, open } of states) if (!one.isConnected || one.open !== open) lost.push(`details ${one.textContent.trim().slice(0, 40)}`);
  for (const { one, left, top } of scrolled)
    if (!one.isConnected || one.scrollLeft !== left || one.scrollTop !== top) lost.push(`scrolled ${one.tagName} ${one.className}`);
  if (field && (!field.isConnected || field.value !== "4711")) lost.push(`field ${field.name}`);
  if (text === undefined && field && document.activeElement !== field) lost.push(`focus ${field.name}`);
  if (text === undefined && field && field.selectionStart !== null && field.selectionStart !== 1) lost.push(`caret ${field.name}`);
  if (text !== undefined && (!node.isConnected || document.getSelection().toString().trim() === "")) lost.push(`selection ${text}`);
  return lost;
}"""


@dataclass
class Stream:
    """The server's side of a page's stream: the requests wait, and each is answered by one update."""

    page: Page
    waiting: list[Route] = field(default_factory=list)

    def update(self, html: str) -> None:
        """Sends the live part and waits until the page has taken it."""
        self.page.evaluate(
            "() => { window.isRenewed = false; document.addEventListener('headrace:renewed', () => { window.isRenewed = true; }); }"
        )
        while not self.waiting:
            self.page.wait_for_timeout(10)
        data = "".join(f"data: {line}\n" for line in html.split("\n"))
        self.waiting.pop().fulfill(body=f"retry: 10\nevent: live\n{data}\n", content_type="text/event-stream")
        self.page.wait_for_function("() => window.isRenewed")


def open_stream(open_page: Pages, url: str) -> Stream:
    """A page whose updates the test sends."""
    page = open_page("about:blank")
    stream = Stream(page)
    page.route("**/*live=stream*", lambda route: stream.waiting.append(route))
    page.goto(url, wait_until="load")
    return stream


def test_update_keeps_what_the_reader_did_on_every_page(untouched_site: Running, open_page: Pages) -> None:
    lost: dict[str, list[str]] = {}
    pages = {route: path for route, path in page_addresses(untouched_site.database, "default").items() if route != "/palette"}
    stream = open_stream(open_page, "about:blank")
    live = 0
    for route, path in pages.items():
        stream.waiting.clear()
        stream.page.goto(untouched_site.address + path, wait_until="load")
        if stream.page.locator("#live-button").count() == 0:
            continue
        live += 1
        stream.page.evaluate(READ)
        stream.update(stream.page.evaluate(NEXT))
        found = stream.page.evaluate(LOST)
        stream.page.evaluate(SELECT)
        stream.update(stream.page.evaluate(NEXT))
        if found := found + stream.page.evaluate(LOST):
            lost[route] = found
    assert lost == {}
    assert live >= 20, "pages that are live"


FORM = """<p>{head}</p><form>
<input id="name" name="name" value="{value}"><textarea name="text">{value}</textarea>
<label><input type="checkbox" name="box"{checked}>box</label>
<select name="choice"><option value="a"{a}>a</option><option value="b"{b}>b</option></select>
<input name="untouched" value="{value}"></form>"""


@pytest.mark.parametrize("focused", ["name", "text"])
def test_update_keeps_a_form_that_is_half_filled(untouched_site: Running, open_page: Pages, focused: str) -> None:
    stream = open_stream(open_page, untouched_site.url("/topics"))
    page = stream.page
    stream.update(FORM.format(head="before", value="server", checked="", a=" selected", b=""))
    page.locator("[name=name]").fill("typed")
    page.locator("[name=text]").fill("typed too")
    page.get_by_label("box").check()
    page.locator("[name=choice]").select_option("b")
    page.locator(f"[name={focused}]").focus()
    page.evaluate("document.activeElement.setSelectionRange(2, 4)")
    stream.update("<h2>new</h2>" + FORM.format(head="after", value="server again", checked=" checked", a="", b=""))
    values = page.evaluate(
        """() => { const form = document.querySelector("#live form").elements;
        return [form.name.value, form.text.value, form.box.checked, form.choice.value, form.untouched.value,
          document.activeElement.name, document.activeElement.selectionStart, document.activeElement.selectionEnd] }"""
    )
    assert values == ["typed", "typed too", True, "b", "server again", focused, 2, 4]
    assert page.locator("#live p").inner_text() == "after"
