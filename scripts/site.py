"""Builds the site in build/site from docs/, and beside the pages llms.txt and llms-full.txt.

Zensical makes the pages. This script adds the navigation: a new page needs no entry anywhere, because its folder says in which
section it is. `make site` calls it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.web.console.assets import File, Library, fetch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build/site"
# The guides in the order in which they are read; any other page of docs/ comes after them.
START = ("index", "compared", "glossary", "guarantees")
GUIDES = (
    "publish", "consume", "read", "rules", "conditions", "correlators", "ecl", "ecl-table", "definitions", "actions", "schedules", "schemas",
    "relays", "relay-targets", "http", "read", "spark", "spark-rules", "pipeline", "backtest", "archive", "namespaces", "security",
    "operations", "monitoring", "tracing", "console", "shards",
)  # fmt: skip
FOLDERS = {"tutorial": "Tutorial", "howto": "How to", "reference": "Reference", "internals": "Internals", "adr": "Decisions"}

SEARCH_SHIM = Library(
    "iframe-worker",
    "1.0.4",
    "sha512-roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
    {
        "shim/index.js": File("shim.js", "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609"),
        "LICENSE": File("shim.LICENSE.txt", "dd69737a4768aab9f934a5aed9efab9561ac4062d4fdbe490d44369a2cf48b6b"),
    },
)


def main() -> int:
    description = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["site_description"]
    build(SITE)
    if problems := broken_links(SITE):
        raise SystemExit("\n".join(["links that lead nowhere, and files of other servers:", *problems]))
    (SITE / "llms.txt").write_text(llms_index(sections(), description), encoding="utf-8")
    (SITE / "llms-full.txt").write_text(llms_full(sections()), encoding="utf-8")
    sys.stdout.write(f"{sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}\n")
    return 0


def sections(docs: Path = DOCS) -> dict[str, list[Path]]:
    """All pages by section, in the order of the navigation."""
    order = {name: place for place, name in enumerate(GUIDES)}
    pages = sorted(docs.glob("*.md"), key=lambda page: (order.get(page.stem, len(order)), page.stem))
    start = [docs / f"{name}.md" for name in START if (docs / f"{name}.md").exists()]
    folders = {title: sorted((docs / folder).rglob("*.md"), key=_in_folder) for folder, title in FOLDERS.items()}
    guides = {"Guides": [page for page in pages if page not in start]}
    tutorial = {"Tutorial": folders.pop("Tutorial")}
    return {title: found for title, found in ({"Start": start} | tutorial | guides | folders).items() if found}


def _in_folder(page: Path) -> tuple[bool, str]:
    return page.stem not in ("index", "README"), page.as_posix()


def build(site: Path) -> None:
    """Makes the pages."""
    navigation = [{title: [page.relative_to(DOCS).as_posix() for page in found]} for title, found in sections().items()]
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="headrace-site-") as folder:
        project = Path(folder)
        # A copy without programs, because Zensical puts all files of the folder into the site.
        shutil.copytree(DOCS, project / "docs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        for page in (project / "docs").rglob("*.md"):
            page.write_text(_plain_fences(page.read_text(encoding="utf-8")), encoding="utf-8")
        (project / "zensical.toml").write_text(
            text.replace("[project]", f"[project]\nnav = {_toml(navigation)}", 1), encoding="utf-8"
        )
        zensical = [sys.executable, "-m", "zensical", "build", "--clean"]
        done = subprocess.run(zensical, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(project / "build/site", site)
    _bring_search_shim(site)


def _bring_search_shim(site: Path) -> None:
    """Puts the script that lets the search work on files into the site; Zensical's pages load it from another server."""
    fetch(site / "assets/search", libraries=[SEARCH_SHIM])
    for page in site.rglob("*.html"):
        local = "../" * (len(page.relative_to(site).parts) - 1) + "assets/search/shim.js"
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"https://[\w.]+/iframe-worker/shim", local, text), encoding="utf-8")


def _plain_fences(text: str) -> str:
    """Without the words for the tests behind a language, such as `python run`: with them a block would not be shown as code."""
    return re.sub(r"^(```\w+) [^\n]*$", r"\1", text, flags=re.MULTILINE)


class _Page(HTMLParser):
    """The anchors and links of a built page, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.anchors |= {values[name] for name in ("id", "name") if name in values and (name == "id" or tag == "a")}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if "src" in values or (tag == "link" and "href" in values):
            self.loads.add(values.get("src") or values["href"])


def broken_links(site: Path) -> list[str]:
    """Links and anchors that lead nowhere, and files of other servers, each with its page."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    problems = []
    # Zensical writes the page for unknown addresses with links from the root.
    for path, page in pages.items():
        if path.name != "404.html":
            found = [link for link in page.links if not _is_external(link) and not _leads_somewhere(link, path, pages)]
            found += [address for address in page.loads if _is_external(address) or not _leads_somewhere(address, path, pages)]
            problems += [f"{path.relative_to(site.resolve())}: {link}" for link in sorted(found)]
    return problems


def _is_external(link: str) -> bool:
    return bool(urlsplit(link).scheme or urlsplit(link).netloc) and not link.startswith("data:")


def _leads_somewhere(link: str, page: Path, pages: Mapping[Path, _Page]) -> bool:
    if link.startswith("data:"):
        return True
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    target = target / "index.html" if target.is_dir() else target
    has_anchor = target not in pages or not parts.fragment or unquote(parts.fragment) in pages[target].anchors
    return target.exists() and has_anchor


def _toml(navigation: Iterable[Mapping[str, list[str]]]) -> str:
    """A string of JSON is a string of TOML too; only tables are written in another way."""
    return (
        "["
        + ", ".join(f"{{{json.dumps(title)} = {json.dumps(found)}}}" for entry in navigation for title, found in entry.items())
        + "]"
    )


def llms_index(pages: Mapping[str, list[Path]], description: str) -> str:
    """The list of pages for language models (llmstxt.org), with the first sentence of each."""
    lines = ["# headrace", "", f"> {description}", ""]
    for title, found in pages.items():
        lines += [f"## {title}", ""]
        lines += [f"- [{_heading(page)}]({_address(page)}): {_first_sentence(page)}".rstrip(": ") for page in found] + [""]
    return "\n".join(lines)


def llms_full(pages: Mapping[str, list[Path]]) -> str:
    """All pages but the decisions as one text."""
    texts = [page.read_text(encoding="utf-8") for title, found in pages.items() if title != "Decisions" for page in found]
    return "\n".join(texts)


def _heading(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _address(page: Path) -> str:
    """The path of the built page; an offline site has files instead of folders."""
    path = page.relative_to(DOCS).as_posix().replace("README.md", "index.md")
    return path.removesuffix(".md") + ".html"


def _first_sentence(page: Path) -> str:
    paragraphs = page.read_text(encoding="utf-8").split("\n\n")[1:]
    prose = next(
        (text for text in paragraphs if re.match(r"[A-Za-z`*\[]", text) and not text.startswith(("Status:", "Generated "))), ""
    )
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    return re.split(r"(?<=[.!?:]) ", plain)[0].rstrip(":")


if __name__ == "__main__":
    sys.exit(main())
