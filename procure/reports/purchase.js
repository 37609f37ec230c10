"use strict";
// Sorts, filters and compares the list, and makes the pictures live. Everything that it shows comes from the JSON
// block; text enters the page as text only.
(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, attributes) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    return node;
  };
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const duration = (seconds) => { // as procure.text.duration writes it
    if (seconds === null) return "–";
    const size = Math.abs(seconds), sign = seconds < 0 ? "-" : "";
    if (size < 9.95) return size >= 0.05 ? seconds.toFixed(1) + " s" : size ? (1000 * seconds).toPrecision(2) + " ms" : "0 s";
    if (size < 119.5) return seconds.toFixed(0) + " s";
    for (const [large, unit, small, rest, below] of
      [[60, "min", 1, "s", 3600], [3600, "h", 60, "min", 172800], [86400, "d", 3600, "h", Infinity]])
      if (Math.round(size / small) * small < below) {
        const all = Math.round(size / small), part = all % (large / small);
        return sign + whole.format(Math.floor(all / (large / small))) + " " + unit + (part ? " " + part + " " + rest : "");
      }
  };
  const servers = (id) => id.split(",").map((one) => {
    const at = one.lastIndexOf("=");
    return one.slice(at + 1) + " × " + one.slice(0, at);
  }).join(", ");
  const shown = (axis, value) => value === null ? "–" : axis.unit === "s" ? duration(value)
    : (axis.unit === "US$" ? "US$ " : "") + whole.format(value) + (axis.unit && axis.unit !== "US$" ? " " + axis.unit : "");

  // The list: sorted by a column's button, filtered by text and by what cannot be told apart from the first.
  const list = byId("list");
  const body = list.querySelector("tbody");
  let rows = [...body.rows];
  const filter = byId("filter"), alike = byId("alike");
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  for (const row of rows) row.hidden = false;
  const apply = () => {
    const wanted = filter.value.trim().toLowerCase();
    let n = 0;
    rows.forEach((row, i) => {
      row.hidden = !(row.textContent.toLowerCase().includes(wanted) && (!alike.checked || data.list[i].alike));
      n += row.hidden ? 0 : 1;
    });
    byId("n-shown").textContent = n + " of " + rows.length + " shown";
  };
  filter.addEventListener("input", apply);
  alike.addEventListener("change", apply);
  list.querySelectorAll("thead th[data-key]").forEach((head) => {
    const button = make("button", head.textContent, { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const key = head.dataset.key, down = head.getAttribute("aria-sort") === "ascending";
      list.querySelectorAll("thead th[data-key]").forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (i) => data.list[i][key] ?? Infinity;
      const order = rows.map((_, i) => i).sort((a, b) =>
        (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1) || a - b);
      body.append(...order.map((i) => rows[i]));
    });
  });

  // Two packages side by side: the last two that were chosen, in the list or in the picture.
  const axes = data.axes;
  let chosen = [];
  let boxes = [];
  const tick = () => {
    boxes = rows.map((row, i) => {
      const box = make("input", null, { type: "checkbox", "aria-label": "compare rank " + data.list[i].rank });
      row.cells[0].prepend(box, " ");
      box.addEventListener("change", () => choose(data.list[i].package_id));
      return box;
    });
    byId("alike-label").hidden = !data.list.some((one) => one.alike === false);
    apply();
  };
  const choose = (id) => {
    chosen = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2);
    boxes.forEach((box, i) => { box.checked = chosen.includes(data.list[i].package_id); });
    compare();
    mark();
  };
  let place = new Map();
  const compare = () => {
    const table = byId("compared");
    table.parentElement.hidden = chosen.length === 0;
    if (!chosen.length) return;
    const head = make("tr");
    head.append(make("th", "", { scope: "col" }), ...chosen.map((id) => make("th", servers(id), { scope: "col" })));
    const lines = axes.map((axis, i) => {
      const line = make("tr");
      const held = chosen.map((id) => place.has(id) ? data.packages[place.get(id)][i + 1] : null);
      line.append(make("th", axis.label, { scope: "row" }), ...held.map((value) => make("td", shown(axis, value), { class: "n" })));
      return line;
    });
    const ranked = chosen.map((id) => data.list.find((one) => one.package_id === id));
    const told = (label, tell) => {
      const line = make("tr");
      line.append(make("th", label, { scope: "row" }), ...ranked.map((one) => make("td", one ? tell(one) : "–", { class: "n" })));
      return line;
    };
    lines.unshift(told("rank", (one) => one.rank));
    if (data.list.some((one) => one.rank_low != null))
      lines.push(told("ranks in 90 % of the resamples", (one) => one.rank_low == null ? "–" : one.rank_low + "–" + one.rank_high));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...lines);
  };

  // The pictures: each specification becomes a live picture in place of the drawn one.
  const keys = ["package_id", ...axes.map((axis) => axis.key)];
  let all = [];
  const take = (given) => {
    data = given;
    place = new Map(data.packages.map((one, i) => [one[0], i]));
    const apart = new Set(data.apart), guessed = new Set(data.guessed);
    all = data.packages.filter((one) => !apart.has(one[0])).map((one) => {
      const row = Object.fromEntries(keys.map((key, i) => [key, one[i]]));
      const wait = duration(row.mean_wait_time) + (guessed.has(one[0]) ? ", predicted" : "");
      return { ...row, servers: servers(row.package_id), guessed: guessed.has(one[0]), wait };
    }).sort((a, b) => a.price_usd - b.price_usd || a.mean_wait_time - b.mean_wait_time);
  };
  take(data);
  const front = (rows) => { // those that no other beats on both: rows stand by price, then wait
    let least = Infinity;
    return rows.map((row) => ({ ...row, front: row.mean_wait_time < least && ((least = row.mean_wait_time), true) }));
  };
  const cloud = byId("picture-cloud"), said = byId("point");
  let held = all, here = null, view = null;
  const options = { ast: true, actions: false, renderer: "svg", logLevel: 1, tooltip: { theme: "custom" } };
  for (const box of document.querySelectorAll(".picture")) {
    const { label, ...spec } = JSON.parse(box.nextElementSibling.textContent);
    if (box === cloud) spec.datasets = { packages: front(all) };
    const still = box.firstElementChild, live = make("div", null, { style: "width: 100%" });
    box.append(live);
    vegaEmbed(live, spec, options).then((made) => {
      still.remove();
      const svg = live.querySelector("svg");
      svg.setAttribute("aria-label", label);
      svg.querySelectorAll("[role],[aria-roledescription]").forEach((one) => {
        for (const name of ["role", "aria-roledescription", "aria-label"]) one.removeAttribute(name);
      });
      svg.setAttribute("role", "img");
      if (box === cloud) begin(made.view);
    }, (error) => { live.remove(); console.error(error); });
  }
  const begin = (made) => {
    view = made;
    Object.entries({ tabindex: "0", role: "application", "aria-roledescription": "picture", "aria-describedby": "point",
      "aria-label": "Packages by price and mean wait: arrow keys go from one to the next, Enter chooses it" })
      .forEach(([name, value]) => cloud.setAttribute(name, value));
    view.addEventListener("click", (_, item) => { if (item && item.datum && item.datum.package_id) choose(item.datum.package_id); });
    mark();
  };
  const mark = () => { if (view) view.signal("chosen", chosen).signal("here", here ? here.package_id : "").runAsync(); };
  const tell = (one) => {
    here = one;
    said.textContent = one === null ? "" : one.servers + ": " + axes.map((axis) => axis.label + " " + shown(axis, one[axis.key])).join(", ");
    mark();
  };
  const asked = { words: byId("types"), price: byId("most-price"), mem: byId("least-mem"), gpus: byId("least-gpus") };
  const filterAll = () => {
    const words = asked.words.value.trim().toLowerCase(), number = (box, other) => box.value === "" ? other : +box.value;
    held = all.filter((one) => one.servers.toLowerCase().includes(words) && one.price_usd <= number(asked.price, Infinity) &&
      one.total_mem_gb >= number(asked.mem, 0) && one.total_gpus >= number(asked.gpus, 0));
    byId("n-drawn").textContent = whole.format(held.length) + " of " + whole.format(all.length) + " packages";
    tell(null);
    if (view) view.data("packages", front(held)).runAsync();
  };
  for (const box of Object.values(asked)) box.addEventListener("input", filterAll);
  cloud.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && held.length) {
      const at = held.indexOf(here);
      tell(held[at < 0 ? (step > 0 ? 0 : held.length - 1) : Math.min(Math.max(at + step, 0), held.length - 1)]);
    } else if (event.key === "Enter" && here !== null) choose(here.package_id);
    else return;
    event.preventDefault();
  });
  for (const one of document.querySelectorAll(".needs-script")) one.hidden = false;
  filterAll();

  // Where a server answers (`procure explore`), the list comes from it, and bounds that are typed in are asked of it.
  const form = byId("ask");
  const fill = () => {
    const cell = (text, number) => make("td", text, number ? { class: "n" } : {});
    rows = data.list.map((one) => {
      const row = make("tr");
      row.append(cell(one.rank, true), cell(servers(one.package_id)), cell(whole.format(one.price_usd), true),
        cell(duration(one.mean_wait_time), true), cell(one.simulated ? "simulated" : "predicted"),
        ...["total_cpus", "total_mem_gb", "total_gpus"].map((key) => cell(whole.format(one[key]), true)));
      return row;
    });
    body.replaceChildren(...rows);
    byId("told").textContent = whole.format(data.n_kept) + " of " + whole.format(data.n_packages) + " packages keep the bounds";
    chosen = [];
    tick();
    compare();
    filterAll();
  };
  if (form) {
    fill();
    let last = 0;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const mine = ++last;
      const say = (text) => { if (mine === last) byId("told").textContent = text; };
      say("Asking …");
      const late = setTimeout(say, 1000, "Asking … A wait or a budget that is new is learnt first, in some seconds.");
      fetch("answer?" + new URLSearchParams(new FormData(form))).then((got) => got.json()).then((given) => {
        if (given.error) say(given.error);
        else if (mine === last) { take(given); fill(); }
      }, () => say("No answer: is procure explore still running?")).finally(() => clearTimeout(late));
    });
  } else tick();
})();
