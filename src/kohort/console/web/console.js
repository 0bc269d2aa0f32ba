"use strict";
(() => {
  const main = document.getElementById("main");
  const shown = document.getElementById("live");
  const address = main && main.dataset.updates;

  // -- what has an address opens: a rebalance in a link

  const follow = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.matches("details")) return;
    target.open = true;
    target.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", follow);
  follow();

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
  });

  // -- updates of an open page

  const status = (text, kind) => {
    if (!shown || shown.textContent === text) return;
    shown.textContent = text;
    shown.className = `live ${kind}`;
  };
  const replaced = (part, html) => {
    const box = document.querySelector(`[data-part="${part}"]`);
    if (!box) return;
    const selection = getSelection();
    if (selection && !selection.isCollapsed && box.contains(selection.anchorNode)) return; // someone is about to copy
    const focused = box.contains(document.activeElement) ? document.activeElement : null;
    const key = focused && [...box.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused);
    const opened = [...box.querySelectorAll("details[open]")].map((each) => each.id);
    const scrolled = [...box.querySelectorAll(".scrolls")].map((each) => each.scrollLeft);
    box.innerHTML = html; // escaped by the server's templates; the page's policy lets nothing in it run
    for (const id of opened) {
      const again = id && document.getElementById(id);
      if (again) again.open = true;
    }
    [...box.querySelectorAll(".scrolls")].forEach((each, place) => (each.scrollLeft = scrolled[place] || 0));
    if (focused) box.querySelectorAll("a, button, summary, [tabindex]")[key]?.focus({ preventScroll: true });
  };

  let source = null;
  const close = () => {
    if (source) source.close();
    source = null;
  };
  const open = () => {
    if (source || !address || document.hidden) return;
    source = new EventSource(address);
    source.onopen = () => status("live", "on");
    source.onerror = () => {
      status(source && source.readyState === EventSource.CLOSED ? "not live: reload the page" : "connection lost", "off");
    };
    source.onmessage = (event) => {
      const parts = JSON.parse(event.data);
      if ("gone" in parts) return status("it is gone", "off");
      status("live", "on");
      for (const [part, html] of Object.entries(parts)) replaced(part, html);
    };
  };
  // A browser opens at most six connections to one site, so a page in a hidden tab closes its stream.
  document.addEventListener("visibilitychange", () => (document.hidden ? (close(), status("paused", "")) : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
