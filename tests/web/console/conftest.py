"""The console on a free port, with a database that is filled once per run, and one chromium.

Playwright's sync interface keeps an event loop in its thread, where no other test could then run one. So it lives in a thread of
its own, and tests that ask for a browser run in that thread."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from filelock import FileLock
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from psycopg.conninfo import conninfo_to_dict

from headrace.db import Server, Target, connect
from headrace.web.console import ConsoleSettings, create_app
from headrace.web.console.assets import AssetError, fetch
from headrace.web.http import server_config
from tests.builders import own_database, wait_until
from tests.debian import find_program
from tests.web.console.filling import fill

T = TypeVar("T")

ARTEFACTS = os.environ.get("HEADRACE_ARTEFACTS")
"""The folder for pictures of the pages, if somebody wants to see them: a picture takes twice the CPU of the page."""
SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}
DEPENDS_ON_LOOKS = ("color-contrast", "scrollable-region-focusable", "target-size", "link-in-text-block")
"""Rules of axe whose answer can change with colours or layout; the others see the same page in every look."""
WAIT_MS = 60_000
"""How long a test waits for what a page must do or show; on a busy machine a page takes seconds."""
expect.set_options(timeout=WAIT_MS)
UPDATE = bool(os.environ.get("HEADRACE_UPDATE_SNAPSHOTS"))


@dataclass(frozen=True)
class Running:
    """A running console."""

    address: str
    database: Target

    def url(self, path: str = "/", **parameters: str) -> str:
        return f"{self.address}{path}" + (f"?{urlencode(parameters)}" if parameters else "")


@contextmanager
def serve(targets: list[Target], settings: ConsoleSettings | None = None, *, base_path: str = "") -> Iterator[str]:
    """Runs a console in this process; yields its address."""
    config = server_config(create_app(targets, settings, base_path=base_path), host="127.0.0.1", port=0)
    socket = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the start of the console")
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}{base_path}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


@dataclass(frozen=True)
class Databases:
    """The same shop twice: `filled` for tests that may change namespace `lab`, `untouched` for snapshots."""

    filled: Target
    untouched: Target


@pytest.fixture(scope="session")
def databases(server: Server) -> Iterator[Databases]:
    with own_database(server, "console", template="headrace_template") as filled:
        fill(filled)
        name = str(conninfo_to_dict(filled.dsn)["dbname"])
        with own_database(server, "untouched", template=name) as untouched:
            yield Databases(filled, untouched)


@pytest.fixture(scope="session")
def filled(databases: Databases) -> Target:
    """A database with a little shop in it. Tests change only namespace `lab`."""
    return databases.filled


@pytest.fixture(scope="session")
def assets() -> None:
    """The browser libraries."""
    with FileLock(Path(tempfile.gettempdir()) / "headrace-assets.lock"):
        try:
            fetch()
        except AssetError as error:
            if os.environ.get("CI"):
                pytest.fail(f"the console's tests need its browser libraries: {error}")
            pytest.skip(f"tests of the console skipped: {error}")


@pytest.fixture(scope="session")
def site(filled: Target, assets: None) -> Iterator[Running]:
    """The console on the filled database, without a login."""
    with serve([filled]) as address:
        yield Running(address, filled)


@pytest.fixture(scope="session")
def untouched_site(databases: Databases, assets: None) -> Iterator[Running]:
    """The console on the database that no test changes: its pages are the same whatever ran before."""
    with connect(databases.untouched) as conn:
        # Otherwise nodes and pipelines of the fill are live, late or lost, as the run has it, what they did was now or a while ago, and
        # the console remembers what its doctor found.
        for table, *times in (
            ("node", "started_at", "heartbeat_at"),
            ("pipeline", "started_at", "heartbeat_at"),
            ("pipeline_batch", "committed_at"),
            ("failure", "first_at", "last_at", "retry_at"),
        ):
            earlier = ", ".join(f"{time} = {time} - interval '2 days'" for time in times)
            conn.execute(f"update headrace_internal.{table} set {earlier}")
    with serve([databases.untouched]) as address:
        yield Running(address, databases.untouched)


@dataclass
class BrowserThread:
    """One chromium, and the only thread that may talk to it."""

    executor: ThreadPoolExecutor
    browser: Browser
    end: Callable[[], None]

    def run(self, function: Callable[[], T]) -> T:
        if threading.current_thread().name.startswith("browser"):
            return function()
        return self.executor.submit(function).result()


def find_browser() -> str:
    """Chromium without windows: a page takes a third of the CPU that the whole browser takes. The whole one does as well."""
    shell = "chromium-headless-shell"
    if os.geteuid() != 0 and shutil.which(shell) is None and (chromium := shutil.which("chromium")):
        return chromium
    return find_program(shell, shell, "fonts-dejavu-core")


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[BrowserThread]:
    path = find_browser()
    executor = ThreadPoolExecutor(1, thread_name_prefix="browser")

    def start() -> tuple[Browser, Callable[[], None]]:
        playwright = sync_playwright().start()
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        return playwright.chromium.launch(executable_path=path, args=options), playwright.stop

    browser, end = executor.submit(start).result()
    thread = BrowserThread(executor, browser, end)
    yield thread
    thread.run(browser.close)
    thread.run(end)
    executor.shutdown()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs tests that use the browser in the browser's thread."""
    thread = pyfuncitem.funcargs.get("browser_thread")
    if thread is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    thread.run(lambda: pyfuncitem.obj(**arguments))
    return True


def new_page(browser: Browser, *, size: str = "wide", scheme: str = "light", javascript: bool = True) -> Page:
    """An empty page in a context of its own."""
    context = browser.new_context(
        viewport=SIZES[size],  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
        java_script_enabled=javascript,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    return page


@dataclass
class Pages:
    """Opens pages, each in a context of its own, and collects what the browser complains about."""

    thread: BrowserThread
    complaints: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """Parts of complaints that the test expects, such as `status of 422`."""
    contexts: list[BrowserContext] = field(default_factory=list)

    def __call__(self, url: str, *, size: str = "wide", scheme: str = "light", javascript: bool = True) -> Page:
        page = new_page(self.thread.browser, size=size, scheme=scheme, javascript=javascript)
        self.contexts.append(page.context)
        page.on("console", self._hear)
        page.on("pageerror", self._hear_error)
        page.goto(url, wait_until="load")
        return page

    @contextmanager
    def look(self, page: Page, url: str) -> Iterator[None]:
        """Shows what is at `url` in a page that others have used, and listens to it until the end of the block."""
        page.set_viewport_size(SIZES["wide"])  # type: ignore[arg-type]
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.on("console", self._hear)
        page.on("pageerror", self._hear_error)
        try:
            page.goto(url, wait_until="load")
            yield
        finally:
            page.remove_listener("console", self._hear)
            page.remove_listener("pageerror", self._hear_error)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _hear_error(self, error: Exception) -> None:
        self.complaints.append(str(error))

    def close(self) -> None:
        for context in self.contexts:
            context.close()


@pytest.fixture
def open_page(browser_thread: BrowserThread) -> Iterator[Pages]:
    """`open_page(url)` is a page in chromium. The test fails if the browser's console had an error or a warning."""
    pages = Pages(browser_thread)
    yield pages
    browser_thread.run(pages.close)
    assert [text for text in pages.complaints if not any(part in text for part in pages.allowed)] == [], "the browser complained"


CheckPage = Callable[..., None]


@pytest.fixture(scope="session")
def viewer(browser_thread: BrowserThread) -> Page:
    """A page that is only looked at: chromium starts a process for it once, not for every test."""
    return browser_thread.run(lambda: new_page(browser_thread.browser))


@pytest.fixture
def check_page(open_page: Pages, viewer: Page) -> CheckPage:
    """`check_page(url, "topics")`: light and dark, wide and narrow; no errors, no serious finding of axe, nothing wider than the
    screen; the aria snapshot is the one in snapshots/; screenshots go to HEADRACE_ARTEFACTS.

    `HEADRACE_UPDATE_SNAPSHOTS=1 pytest …` writes new snapshots: read the diff."""

    def check(url: str, name: str) -> None:
        with open_page.look(viewer, url):
            check_looks(viewer, name)

    return check


def check_looks(page: Page, name: str) -> None:
    """A page that is open, in all four looks. To load it again for each would take longer than the checks."""
    compare_snapshot(page, name)
    for size, schemes in (("wide", ("light", "dark")), ("narrow", ("dark", "light"))):
        page.set_viewport_size(SIZES[size])  # type: ignore[arg-type]
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            if ARTEFACTS:
                page.screenshot(path=Path(ARTEFACTS) / f"{name}-{size}-{scheme}.png", full_page=True)
            # Colours differ by scheme, layout by width: two of the four combinations meet all of both.
            if (size, scheme) == ("wide", "light"):
                assert_accessible(page)
            elif (size, scheme) == ("narrow", "dark"):
                assert_accessible(page, *DEPENDS_ON_LOOKS)
        width = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{name} is {width} px wider than a {size} screen"


def assert_accessible(page: Page, *rules: str) -> None:
    """No serious or critical finding of axe, by all of its rules or by some."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    # Half a megabyte of script, once per page.
    axe = Axe("") if page.evaluate("'axe' in window") else Axe()
    violations = [
        f"{finding['id']}: {finding['help']}: {[node['target'] for node in finding['nodes']][:5]}"
        for finding in axe.run(page, options=options).response["violations"]
        if finding["impact"] in ("serious", "critical")
    ]
    assert violations == []


def _without_choices(text: str) -> str:
    """A snapshot without the options that are not selected: other tests of the run add topics, types and actions."""
    return re.sub(r'\n *- option "[^"\n]*"(?=\n)', "", text)


def compare_snapshot(page: Page, name: str) -> None:
    """What a screen reader finds in the page, without numbers and times, is what snapshots/ has."""
    text = page.locator("main").aria_snapshot()
    # Tracebacks name files of this checkout.
    text = text.replace(f"{Path(__file__).parents[3]}/", "")
    text = re.sub(r"\b([0-9a-f]{8}-[0-9a-f-]{27}|\d[\d\u202f.:-]*)( (ms|s|min|h|d))?( \d+ (s|min|h))?( ago)?", "N", text)
    # A rate is known from the second look on, which may come while the page is open.
    text = re.sub(r'(img "[^"]*"): The line begins .*', r"\1", text.replace("–", "N"))
    # What a schedule does next depends on the day.
    text = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) N|\bCES?T\b|\bclock (back|forward) N", "N", text)
    # `25 1 min 13 s` and `25 53.2 s` are the same.
    text = re.sub(r"N( N)+", "N", text)
    path = SNAPSHOTS / f"{name}.yml"
    if UPDATE or (not path.exists() and not os.environ.get("CI")):
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    assert _without_choices(text + "\n") == _without_choices(kept), (
        f"{path.name} differs; if it should: HEADRACE_UPDATE_SNAPSHOTS=1"
    )
