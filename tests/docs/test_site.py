"""The site is whole: every page has its place, every link leads somewhere, and the search works without a network."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.async_api import Route, async_playwright

from scripts.site import DOCS, broken_links, build, llms_full, llms_index, sections
from tests.debian import find_program

if find_spec("zensical") is None and not os.environ.get("CI"):
    pytest.skip("zensical is not installed; run: make setup", allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    build(folder)
    return folder


def test_no_link_leads_nowhere_and_no_page_loads_from_another_server(site: Path) -> None:
    assert broken_links(site) == []


def test_broken_links_anchors_and_foreign_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text("<h1 id='there'>x</h1>")
    links = ("other.html#there", "other.html#gone", "gone.html", "#here")
    body = "".join(f"<a id='here' href='{link}'>x</a>" for link in links) + "<script src='https://cdn.example/x.js'></script>"
    (tmp_path / "page.html").write_text(body)
    assert broken_links(tmp_path) == [
        "page.html: gone.html",
        "page.html: https://cdn.example/x.js",
        "page.html: other.html#gone",
    ]


def test_every_page_is_in_the_navigation_once(site: Path) -> None:
    pages = [page for found in sections().values() for page in found]
    assert sorted(pages) == sorted(DOCS.rglob("*.md"))
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")} - {"404"}
    assert built == {page.relative_to(DOCS).with_suffix("").as_posix().replace("README", "index") for page in pages}


def test_lists_for_language_models_name_every_page(site: Path) -> None:
    index = llms_index(sections(), "An event platform")
    assert [path.name for path in site.rglob("*.html") if f"({path.relative_to(site)})" not in index] == ["404.html"]
    assert (DOCS / "publish.md").read_text() in llms_full(sections())


async def test_search_works_on_files_without_a_network(site: Path) -> None:
    requests: list[str] = []

    async def block(route: Route) -> None:
        if route.request.url.startswith(("file:", "data:", "blob:")):
            await route.continue_()
        else:
            requests.append(route.request.url)
            await route.abort()

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_program("chromium"), args=["--no-sandbox"])
        page = await browser.new_page()
        await page.route("**/*", block)
        await page.goto((site / "index.html").as_uri())
        await page.get_by_role("button", name="Search").first.click()
        await page.get_by_role("combobox").or_(page.get_by_role("textbox")).first.fill("correlator")
        first = page.locator("a", has_text="one machine per key").first
        await first.click()
        await page.wait_for_url("**/correlators.html**")
        await browser.close()
    assert requests == []
