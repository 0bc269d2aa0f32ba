"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const field = Object.fromEntries(figures.fields.map((name, place) => [name, place]));
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 50;

  // Every text of the log becomes a text node: nothing here ever parses one as HTML.
  const make = (name, attributes = {}, ...content) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };
  const bdi = (text) => make("bdi", {}, text);
  const number = (value) => value.toLocaleString("en-US");
  const counted = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;
  const duration = (seconds) => {
    if (seconds > 0 && seconds < 0.05) return "under 0.1 s";
    if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
    const whole = Math.round(seconds);
    for (const [unit, name, lower, lowerName] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      if (whole < unit) continue;
      const rest = Math.floor((whole % unit) / lower);
      return `${number(Math.floor(whole / unit))} ${name}${rest ? ` ${rest} ${lowerName}` : ""}`;
    }
    return `${whole} s`;
  };
  const when = (ms, parts) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...parts }).format(ms);
  const hour = (ms) => when(ms, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
  const signs = { critical: "▲", warning: "◆", info: "●" };
  const badge = (severity) =>
    make("span", { class: `badge ${severity}` }, make("span", { "aria-hidden": "true" }, signs[severity] || "●"), ` ${severity}`);

  // -- reading plots out

  const cursor = (svg, x, width) => {
    svg.querySelector(".cursor")?.remove();
    const drawn = document.createElementNS(SVG, "rect");
    for (const [key, value] of Object.entries({ x, y: 0, width, height: 10, class: "cursor" })) drawn.setAttribute(key, value);
    svg.append(drawn);
  };
  const showReading = (svg, ...content) => {
    const reading = svg.closest("section").querySelectorAll("[data-reading]");
    const plot = svg.closest("[data-plot]").dataset.plot;
    for (const each of reading) if (each.dataset.reading === plot) each.replaceChildren(...content);
  };
  const readable = (svg, stops, place, contentAt) => {
    let at = -1;
    const go = (to) => {
      if (to < 0 || to >= stops.length || to === at) return;
      at = to;
      cursor(svg, stops[at][0], stops[at][1]);
      showReading(svg, ...contentAt(at));
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      go(place((event.clientX - box.left) / box.width));
    });
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      go(place((event.clientX - box.left) / box.width));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const end = { Home: 0, End: stops.length - 1 }[event.key];
      if (step === undefined && end === undefined) return;
      event.preventDefault();
      go(end === undefined ? Math.max(0, at + step) : end);
    });
    svg.addEventListener("focus", () => at < 0 && go(0));
    svg.addEventListener("blur", () => { svg.querySelector(".cursor")?.remove(); at = -1; });
    svg.addEventListener("pointerleave", () => { svg.querySelector(".cursor")?.remove(); at = -1; });
  };
  const [start, step, columns] = figures.columns;
  const cells = (svg, name, count) => {
    const stops = Array.from({ length: columns }, (_, at) => [at, 1]);
    const place = (share) => Math.min(columns - 1, Math.floor(share * columns));
    readable(svg, stops, place, (at) => {
      const span = `${hour(start + at * step)} to ${hour(start + (at + 1) * step)}`;
      return [bdi(name), `, ${span}: ${counted(count(at), "rebalance")}`];
    });
  };
  for (const svg of document.querySelectorAll("[data-cells]")) {
    const row = figures.heat[svg.dataset.cells];
    if (svg.dataset.cells === "fleet") cells(svg, "all groups", (at) => figures.fleet[at]);
    else if (row) cells(svg, row[0], (at) => row[1][at] || 0);
  }
  for (const svg of document.querySelectorAll("svg.owned")) {
    svg.setAttribute("tabindex", 0);
    const pieces = [...svg.querySelectorAll("rect")].filter((rect) => rect.querySelector("title")).map((rect) => ({
      x: Number(rect.getAttribute("x")), width: Number(rect.getAttribute("width")), text: rect.textContent,
    })).sort((a, b) => a.x - b.x);
    const place = (share) => pieces.findLastIndex(({ x, width }) => share * 1000 >= x && share * 1000 < x + width);
    readable(svg, pieces.map(({ x, width }) => [x, width]), place, (at) => [bdi(svg.dataset.lane), " ", bdi(pieces[at].text)]);
  }

  // -- groups

  const list = document.getElementById("group-list");
  const more = document.getElementById("group-more");
  const count = document.getElementById("group-count");
  const filters = document.querySelector(".filters");
  const search = document.getElementById("group-search");
  const severity = document.getElementById("group-severity");
  const kind = document.getElementById("group-kind");
  const order = document.getElementById("group-order");
  const groups = figures.groups.map((row, place) => ({
    row, place,
    text: [row[field.name], row[field.source], row[field.topics], row[field.assignor], row[field.state]].join(" ").toLowerCase(),
  }));
  const of = (row, name) => row[field[name]];
  const orders = {
    "": (a, b) => a.place - b.place,
    name: (a, b) => (a.row[field.name] < b.row[field.name] ? -1 : a.row[field.name] > b.row[field.name] ? 1 : 0),
    rebalances: (a, b) => b.row[field.rebalances] - a.row[field.rebalances],
    unowned: (a, b) => b.row[field.unowned] - a.row[field.unowned],
    lag: (a, b) => (b.row[field.lag] ?? -1) - (a.row[field.lag] ?? -1),
  };
  const wanted = {
    "": () => true,
    critical: (row) => of(row, "severity") === "critical",
    warning: (row) => ["critical", "warning"].includes(of(row, "severity")),
    any: (row) => of(row, "findings") > 0,
  };
  let chosen = [];
  let shown = 0;

  const facts = (row) => {
    const pairs = [
      ["Topics", of(row, "topics") || "–"],
      ["Assignor", of(row, "assignor") || "–"],
      ["Protocols of members", of(row, "protocols") || "–"],
      ["Rebalances", `${number(of(row, "rebalances"))}, ${number(of(row, "failed"))} failed`],
      ["Longest rebalance", duration(of(row, "longest"))],
      ["Without an owner", `${duration(of(row, "unowned"))} of partition time`],
      ["Partitions moved", number(of(row, "moved"))],
      ["Commits", number(of(row, "commits"))],
      ["Lag", of(row, "lag") === null ? "not known" : counted(of(row, "lag"), "record")],
      ["Static members", of(row, "static") === null ? "–" : `${of(row, "static")} %`],
      ["Last commit", of(row, "commit")],
      ["Seen", `${of(row, "first")} to ${of(row, "last")}`],
    ];
    return make("dl", {}, ...pairs.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, bdi(value)))));
  };
  const activity = (row) => {
    const drawn = document.createElementNS(SVG, "svg");
    const flat = of(row, "activity");
    const attributes = { class: "strip cells", viewBox: `0 0 ${columns} 10`, preserveAspectRatio: "none", role: "img" };
    for (const [key, value] of Object.entries(attributes)) drawn.setAttribute(key, value);
    drawn.setAttribute("aria-label", "rebalances over the time of the report");
    for (let at = 0; at < flat.length; at += 2) {
      const cell = document.createElementNS(SVG, "rect");
      const quantum = [1, 2, 5, 10, 30].filter((least) => flat[at + 1] >= least).length;
      for (const [key, value] of Object.entries({ x: flat[at], y: 0, width: 1, height: 10, class: `q${quantum}` })) cell.setAttribute(key, value);
      drawn.append(cell);
    }
    return make("div", {}, make("p", { class: "note" }, "Rebalances over the time of the report:"), drawn);
  };
  const found = (place) =>
    (figures.findings[place] || []).map(([level, rule, sentence, advice]) => {
      const article = make("article", { class: "finding" }, make("h4", {}, badge(level), rule), make("p", {}, make("bdi", { dir: "ltr" }, sentence)));
      if (advice) article.append(make("p", { class: "advice" }, make("b", {}, "To do: "), advice));
      return article;
    });
  const fill = (line, row, place) => {
    if (line.querySelector(".inside")) return;
    const inside = make("div", { class: "inside" }, facts(row));
    if (of(row, "activity").length) inside.append(activity(row));
    inside.append(...found(place));
    const missing = of(row, "findings") - (figures.findings[place] || []).length;
    if (missing > 0) inside.append(make("p", { class: "note" }, `${counted(missing, "finding")} of this group only in the tables.`));
    const timeline = of(row, "timeline");
    if (timeline !== null) inside.append(make("p", {}, make("a", { href: `#timeline-${timeline}` }, "Who owned what in its worst hour")));
    line.append(inside);
  };
  const line = ({ row, place }) => {
    const name = make("span", { class: "name" });
    if (of(row, "severity")) name.append(badge(of(row, "severity")));
    name.append(bdi(of(row, "name")));
    if (of(row, "source")) name.append(make("small", { class: "source" }, bdi(of(row, "source"))));
    const cell = (value, label) => make("span", {}, value, " ", make("span", {}, label));
    const summary = make(
      "summary", {}, name,
      make("span", {}, `${of(row, "kind")}, ${of(row, "state")}`),
      cell(number(of(row, "members")), of(row, "members") === 1 ? "member" : "members"),
      cell(number(of(row, "rebalances")), of(row, "rebalances") === 1 ? "rebalance" : "rebalances"),
      cell(duration(of(row, "unowned")), "unowned"),
    );
    const made = make("details", { class: "group", id: `group-${place}` }, summary);
    made.addEventListener("toggle", () => made.open && fill(made, row, place));
    return made;
  };
  const showMore = () => {
    list.append(...chosen.slice(shown, shown + PAGE).map(line));
    shown = Math.min(shown + PAGE, chosen.length);
    more.hidden = shown >= chosen.length;
  };
  const choose = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const keeps = wanted[severity.value];
    chosen = groups.filter(
      ({ row, text }) => keeps(row) && (!kind.value || of(row, "kind") === kind.value) && words.every((word) => text.includes(word)),
    );
    chosen.sort(orders[order.value]);
    count.textContent = chosen.length === groups.length ? "" : `${counted(chosen.length, "group")} of ${number(groups.length)}`;
    list.replaceChildren();
    shown = 0;
    showMore();
  };
  const open = (place) => {
    let target = document.getElementById(`group-${place}`);
    if (!target && groups[place]) {
      target = line(groups[place]);
      list.prepend(target);
    }
    if (!target) return;
    target.open = true;
    target.scrollIntoView({ block: "start" });
    target.querySelector("summary").focus({ preventScroll: true });
  };
  const follow = () => {
    const [, place] = location.hash.match(/^#group-(\d+)$/) || [];
    if (place !== undefined) open(Number(place));
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.matches("details.rule")) target.open = true;
  };
  filters.hidden = false;
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", choose);
  more.addEventListener("click", showMore);
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    // A link to where one is already changes no hash.
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });
  choose();
  follow();
})();
