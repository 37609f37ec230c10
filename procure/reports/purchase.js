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
  const duration = (seconds) => {
    if (seconds === null) return "–";
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
      if (Math.abs(seconds) >= 2 * size) return (seconds / size).toFixed(1) + " " + unit;
    return (Math.abs(seconds) < 10 ? seconds.toFixed(1) : whole.format(seconds)) + " s";
  };
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
    head.append(make("th", "", { scope: "col" }), ...chosen.map((id) => make("th", id.replaceAll(",", ", "), { scope: "col" })));
    const lines = axes.map((axis, i) => {
      const line = make("tr");
      const held = chosen.map((id) => place.has(id) ? data.packages[place.get(id)][i + 1] : null);
      line.append(make("th", axis.label, { scope: "row" }), ...held.map((value) => make("td", shown(axis, value), { class: "n" })));
      return line;
    });
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...lines);
  };

  // The picture: every package on two axes; the nearest point is named, a click chooses it.
  const canvas = byId("cloud"), said = byId("point");
  const across = byId("across"), up = byId("up");
  axes.forEach((axis, i) => {
    across.append(make("option", axis.label, { value: i }));
    up.append(make("option", axis.label, { value: i }));
  });
  across.value = axes.findIndex((axis) => axis.key === "price_usd");
  up.value = axes.findIndex((axis) => axis.key === "mean_wait_time");
  let points = [];
  const draw = () => {
    const wide = canvas.clientWidth || 640, high = Math.round(wide * 0.55), ratio = window.devicePixelRatio || 1;
    canvas.width = wide * ratio; canvas.height = high * ratio; canvas.style.height = high + "px";
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const x = +across.value, y = +up.value;
    const held = data.packages.filter((one) => one[x + 1] !== null && one[y + 1] !== null);
    const scale = (i, from, to) => {
      const log = axes[i].unit === "s" ? (v) => Math.asinh(v / 10) : (v) => v;
      const values = held.map((one) => log(one[i + 1]));
      const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      return { at: (v) => from + (to - from) * (high > low ? (log(v) - low) / (high - low) : 0.5),
        ends: held.length ? [held.reduce((a, b) => a[i + 1] <= b[i + 1] ? a : b)[i + 1], held.reduce((a, b) => a[i + 1] >= b[i + 1] ? a : b)[i + 1]] : [] };
    };
    const right = scale(x, 12, wide - 12), top = scale(y, high - 28, 20);
    const style = getComputedStyle(document.body);
    pen.font = "12px sans-serif"; pen.fillStyle = style.color;
    if (held.length) {
      pen.textAlign = "left"; pen.fillText(shown(axes[x], right.ends[0]), 4, high - 4);
      pen.fillText(axes[y].label + ": " + shown(axes[y], top.ends[0]) + " at the foot, " + shown(axes[y], top.ends[1]) + " at the head", 4, 12);
      pen.textAlign = "right"; pen.fillText(shown(axes[x], right.ends[1]), wide - 4, high - 4);
      pen.textAlign = "center"; pen.fillText(axes[x].label, wide / 2, high - 4);
    }
    points = held.map((one) => [right.at(one[x + 1]), top.at(one[y + 1]), one]);
    const dot = ([px, py], size, colour) => { pen.fillStyle = colour; pen.beginPath(); pen.arc(px, py, size, 0, 7); pen.fill(); };
    for (const one of points) dot(one, 2, "rgba(120,120,120,.45)");
    for (const one of points) if (one[2][0] === data.list[0].package_id) dot(one, 6, "#D55E00");
    for (const one of points) if (chosen.includes(one[2][0])) dot(one, 5, "#0072B2");
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
  canvas.addEventListener("mousemove", (event) => {
    const one = nearest(event);
    said.textContent = one === null ? "" : one[0].replaceAll(",", ", ") + ": " +
      axes.map((axis, i) => axis.label + " " + shown(axis, one[i + 1])).join(", ");
  });
  canvas.addEventListener("click", (event) => { const one = nearest(event); if (one !== null) choose(one[0]); });
  for (const select of [across, up]) select.addEventListener("change", draw);
  window.addEventListener("resize", draw);
  byId("explore").hidden = false;
  draw();
})();
