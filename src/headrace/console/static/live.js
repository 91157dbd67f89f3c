// Renews the part #live of a page while it is open: by server-sent events, by polling where streams do not get through.
"use strict";
(() => {
  const live = document.getElementById("live");
  const button = document.getElementById("live-button");
  if (!live || !live.dataset.stream || !button) return;
  const FAILURES_MAX = 3;
  let source = null;
  let timer = null;
  let failures = 0;
  let isOn = true;

  function replace(html) {
    // Whoever types in a form or selects text here is not interrupted.
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return;
    const focus = document.activeElement;
    if (focus && live.contains(focus) && focus.matches("input:not([type=hidden]), textarea, select")) return;
    if (window.htmx) {
      window.htmx.swap({ text: html, target: live, swap: "innerMorph", sourceElement: live });
    } else {
      live.innerHTML = html;
    }
    document.dispatchEvent(new Event("headrace:renewed"));
  }

  function show(state, text) {
    button.dataset.state = state;
    button.textContent = text;
  }

  async function poll() {
    try {
      const answer = await fetch(live.dataset.part, { headers: { "HX-Request": "true" } });
      if (answer.ok) {
        replace(await answer.text());
        show("on", "Live");
      } else show("lost", "Not live");
    } catch { show("lost", "Not live"); }
  }

  function start() {
    if (source || timer || !isOn || document.hidden) return;
    if (failures >= FAILURES_MAX || !window.EventSource) {
      timer = setInterval(poll, 1000 * Number(button.dataset.every || 5));
      poll();
      return;
    }
    source = new EventSource(live.dataset.stream);
    source.addEventListener("live", (event) => { failures = 0; show("on", "Live"); replace(event.data); });
    source.addEventListener("failure", () => show("lost", "Not live"));
    source.onerror = () => {
      failures += 1;
      show("lost", "Connecting");
      if (failures >= FAILURES_MAX) { stop(); start(); }
    };
  }

  function stop() {
    if (source) source.close();
    clearInterval(timer);
    source = timer = null;
  }

  button.addEventListener("click", () => {
    isOn = !isOn;
    button.setAttribute("aria-pressed", String(isOn));
    failures = 0;
    if (isOn) { show("on", "Live"); start(); } else { stop(); show("off", "Paused"); }
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else start(); });
  // The browser may keep the page in memory; an open stream would prevent that.
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", start);
  start();
})();
