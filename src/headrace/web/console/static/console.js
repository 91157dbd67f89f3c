// Keyboard, palette, theme, menu, copying and confirmation.
"use strict";
(() => {
  const root = document.documentElement;
  const palette = document.getElementById("palette");
  const input = document.getElementById("palette-input");
  const list = document.getElementById("palette-list");
  const help = document.getElementById("help");

  // Theme
  document.getElementById("theme-button")?.addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("headrace-theme", root.dataset.theme); } catch { /* Storage may be switched off. */ }
    document.dispatchEvent(new Event("headrace:theme"));
  });

  // Menu on narrow screens
  const menuButton = document.getElementById("menu-button");
  menuButton?.addEventListener("click", () => {
    const isOpen = root.classList.toggle("menu-open");
    menuButton.setAttribute("aria-expanded", String(isOpen));
  });

  // Selects that submit their form, buttons that copy, forms that ask first
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      await navigator.clipboard.writeText(copy.dataset.copy);
      const label = copy.textContent;
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = label; }, 1500);
    }
    if (event.target.closest("[data-open=palette]")) openPalette();
  });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // Times: the title in the person's own time zone
  function localTimes() {
    document.querySelectorAll("time[datetime]:not([data-local])").forEach((time) => {
      const at = new Date(time.getAttribute("datetime"));
      time.dataset.local = "";
      time.title = `${at.toLocaleString()} · ${time.title}`;
    });
  }
  document.addEventListener("headrace:renewed", localTimes);
  localTimes();

  // Palette
  let results = [];
  let selected = 0;
  let asked = 0;

  function openPalette() {
    palette.showModal();
    input.value = "";
    input.focus();
    search();
  }

  function showResults() {
    list.replaceChildren(...results.map((result, index) => {
      const item = document.createElement("li");
      item.id = `palette-${index}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(index === selected));
      const kind = document.createElement("span");
      kind.className = "kind";
      kind.textContent = result.kind;
      item.append(result.label, kind);
      item.addEventListener("click", () => { window.location.href = result.url; });
      return item;
    }));
    input.setAttribute("aria-activedescendant", results.length ? `palette-${selected}` : "");
    document.getElementById(`palette-${selected}`)?.scrollIntoView({ block: "nearest" });
  }

  async function search() {
    const number = ++asked;
    const address = new URL(document.body.dataset.palette, window.location.href);
    address.searchParams.set("q", input.value);
    const answer = await fetch(address);
    if (!answer.ok || number !== asked) return;
    results = await answer.json();
    selected = 0;
    showResults();
  }

  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && results.length) {
      selected = (selected + step + results.length) % results.length;
      showResults();
      event.preventDefault();
    }
    if (event.key === "Enter" && results[selected]) window.location.href = results[selected].url;
  });

  // Keyboard
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!palette.open) openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
    if (isGoing) {
      isGoing = false;
      const link = document.querySelector(`nav.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) link.click();
    } else if (event.key === "g") {
      isGoing = true;
      setTimeout(() => { isGoing = false; }, 1500);
    } else if (event.key === "/") {
      const box = document.getElementById("search");
      if (box) { box.focus(); box.select(); event.preventDefault(); }
    } else if (event.key === "?") {
      help.showModal();
    }
  });
})();
