// Renews the part #live of a page while it is open: by server-sent events, by polling where streams do not get through.
// The page is changed in place, element by element, and what the reader did to it stays: see `renew`.
"use strict";
(() => {
  const live = document.getElementById("live");
  const button = document.getElementById("live-button");
  if (!live || !live.dataset.stream || !button) return;
  if (!window.htmx) {
    // Without it a renewal would replace everything, and fold or empty what the reader has open.
    button.remove();
    return;
  }
  const FAILURES_MAX = 3;
  const edited = new WeakSet();
  let morph = null;
  let source = null;
  let timer = null;
  let failures = 0;
  let isOn = true;

  live.addEventListener("input", (event) => edited.add(event.target));
  window.htmx.registerExtension("headrace-live", {
    init: (api) => { morph = api.morph; },
    // Whether <details> is open is the reader's choice; the server only says how it begins.
    htmx_before_morph_attr: (element, change) => change.attrName !== "open" || !element.matches("details"),
    htmx_before_morph_node: (element) => !edited.has(element) && !(element === document.activeElement && element.matches("input, select, textarea")),
  });

  // Elements are found again by their ids or their order, so open details, scroll positions and focus stay with them.
  function renew(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const selection = document.getSelection();
    const { anchorNode, anchorOffset, focusNode, focusOffset } = selection;
    const focused = document.activeElement;
    morph(live, template.content, true);
    if (focused !== document.activeElement && live.contains(focused)) focused.focus({ preventScroll: true });
    // A text that changes or moves loses its selection.
    const isText = [anchorNode, focusNode].every((node) => node?.nodeType === Node.TEXT_NODE && node.isConnected);
    const isMoved = selection.anchorNode !== anchorNode || selection.anchorOffset !== anchorOffset
      || selection.focusNode !== focusNode || selection.focusOffset !== focusOffset;
    if (isText && isMoved) {
      selection.setBaseAndExtent(anchorNode, Math.min(anchorOffset, anchorNode.length), focusNode, Math.min(focusOffset, focusNode.length));
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
        renew(await answer.text());
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
    source.addEventListener("live", (event) => { failures = 0; show("on", "Live"); renew(event.data); });
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
