"use strict";
// Sorts, filters and compares the list, and draws all packages on axes of the reader's choice. Everything that it
// shows comes from the JSON block; text enters the page as text only.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
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
  const rows = [...body.rows];
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
  byId("alike-label").hidden = !data.list.some((one) => one.alike === false);
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
  apply();

  // Two packages side by side: the last two that were chosen, in the list or in the picture.
  const axes = data.axes;
  let chosen = [];
  const boxes = rows.map((row, i) => {
    const box = make("input", null, { type: "checkbox", "aria-label": "compare rank " + data.list[i].rank });
    row.cells[0].prepend(box, " ");
    box.addEventListener("change", () => choose(data.list[i].package_id));
    return box;
  });
  const choose = (id) => {
    chosen = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2);
    boxes.forEach((box, i) => { box.checked = chosen.includes(data.list[i].package_id); });
    compare();
    draw();
  };
  const place = new Map(data.packages.map((one, i) => [one[0], i]));
  const compare = () => {
    const table = byId("compared");
    table.hidden = chosen.length === 0;
    if (table.hidden) return;
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

  // The picture: every package on two axes, and the front between these. The nearest point is named, a click chooses it.
  const canvas = byId("cloud"), said = byId("point"), scales = byId("scales");
  const across = byId("across"), up = byId("up");
  axes.forEach((axis, i) => {
    across.append(make("option", axis.label, { value: i }));
    up.append(make("option", axis.label, { value: i }));
  });
  across.value = axes.findIndex((axis) => axis.key === "price_usd");
  up.value = axes.findIndex((axis) => axis.key === "mean_wait_time");
  const apart = new Set(data.apart);
  let points = [], here = null;
  const front = (held, x, y) => {
    const worth = (one, i) => one[i + 1] * (axes[i].more ? -1 : 1);
    const order = [...held].sort((a, b) => worth(a, x) - worth(b, x) || worth(a, y) - worth(b, y));
    let best = Infinity;
    return new Set(order.filter((one) => worth(one, y) < best && ((best = worth(one, y)), true)));
  };
  const draw = () => {
    const wide = canvas.clientWidth || 640, high = Math.round(wide * 0.55), ratio = window.devicePixelRatio || 1;
    canvas.width = wide * ratio; canvas.height = high * ratio; canvas.style.height = high + "px";
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const x = +across.value, y = +up.value;
    const held = data.packages.filter((one) => one[x + 1] !== null && one[y + 1] !== null && !apart.has(one[0]));
    const scale = (i, from, to) => {
      const log = axes[i].unit === "s" ? (v) => Math.asinh(v / 10) : (v) => v;
      const values = held.map((one) => log(one[i + 1]));
      const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      return { at: (v) => from + (to - from) * (high > low ? (log(v) - low) / (high - low) : 0.5),
        ends: held.length ? [held.reduce((a, b) => a[i + 1] <= b[i + 1] ? a : b)[i + 1], held.reduce((a, b) => a[i + 1] >= b[i + 1] ? a : b)[i + 1]] : [] };
    };
    const right = scale(x, 12, wide - 12), top = scale(y, high - 12, 12), best = front(held, x, y);
    scales.textContent = !held.length ? "" : "Across: " + axes[x].label + ", " + right.ends.map((one) => shown(axes[x], one)).join(" to ") +
      ". Up: " + axes[y].label + ", " + top.ends.map((one) => shown(axes[y], one)).join(" to ") + ". Green: the front, " +
      whole.format(best.size) + " packages that no other beats on both axes; orange: the first choice; blue: those chosen.";
    points = held.map((one) => [right.at(one[x + 1]), top.at(one[y + 1]), one]);
    const dot = ([px, py], size, colour) => { pen.fillStyle = colour; pen.beginPath(); pen.arc(px, py, size, 0, 7); pen.fill(); };
    for (const one of points) dot(one, 2, "rgba(120,120,120,.45)");
    for (const one of points) if (best.has(one[2])) dot(one, 4, "#009E73");
    for (const one of points) if (one[2][0] === data.list[0].package_id) dot(one, 6, "#D55E00");
    for (const one of points) if (chosen.includes(one[2][0])) dot(one, 5, "#0072B2");
    const at = points.find((one) => one[2] === here);
    if (at) { pen.strokeStyle = getComputedStyle(document.body).color; pen.lineWidth = 2; pen.beginPath(); pen.arc(at[0], at[1], 8, 0, 7); pen.stroke(); }
  };
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    let best = null, off = 400;
    for (const one of points) {
      const d = (one[0] - px) ** 2 + (one[1] - py) ** 2;
      if (d < off) { off = d; best = one[2]; }
    }
    return best;
  };
  const tell = (one) => {
    here = one;
    said.textContent = one === null ? "" : servers(one[0]) + ": " +
      axes.map((axis, i) => axis.label + " " + shown(axis, one[i + 1])).join(", ");
    draw();
  };
  canvas.addEventListener("mousemove", (event) => { const one = nearest(event); if (one !== here) tell(one); });
  canvas.addEventListener("click", (event) => { const one = nearest(event); if (one !== null) choose(one[0]); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && points.length) {
      const order = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((one) => one[2]);
      const at = order.indexOf(here);
      tell(order[at < 0 ? (step > 0 ? 0 : order.length - 1) : Math.min(Math.max(at + step, 0), order.length - 1)]);
    } else if (event.key === "Enter" && here !== null) choose(here[0]);
    else return;
    event.preventDefault();
  });
  for (const select of [across, up]) select.addEventListener("change", draw);
  window.addEventListener("resize", draw);
  byId("explore").hidden = false;
  draw();
})();
