"use strict";
// The answer changes as one types; without this script the form asks by itself.
(() => {
  const form = document.getElementById("question");
  const place = document.getElementById("answer");
  let waits = 0;
  let last = 0;

  function roughly(s) {
    if (s < 2.5) return "at once";
    if (s < 57.5) return `${5 * Math.round(s / 5)} s`;
    const minutes = Math.max(Math.round(s / 60), 1);
    if (minutes < 60) return `${minutes} min`;
    if (s < 5.9 * 3600) {
      const tens = Math.round(s / 600);
      return `${Math.floor(tens / 6)} h` + (tens % 6 ? ` ${10 * (tens % 6)} min` : "");
    }
    if (s < 47.5 * 3600) return `${Math.round(s / 3600)} h`;
    if (s >= 2 * 31557600) return `${Math.round(s / 31557600)} years`;
    return `${s < 9.75 * 86400 ? Math.round(s / 43200) / 2 : Math.round(s / 86400)} days`;
  }

  function paragraph(text, kind) {
    const made = document.createElement("p");
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function show(said) {
    const percent = (value) => `${(100 * value).toFixed(1)} %`;
    const when = said.median_s < 2.5 ? "at once" : `in about ${roughly(said.median_s)}`;
    const chances = ["1h", "4h", "12h"].map((name) => `${name.slice(0, -1)} h: ${percent(said.chance[name])}`);
    place.replaceChildren(
      paragraph(`Your job starts ${when}, as likely sooner as later`, "what"),
      paragraph(`9 in 10: ${roughly(said.interval_s[0])} to ${roughly(said.interval_s[1])} · within ${chances.join(", ")}`),
      paragraph(said.because),
      ...said.caution.map((text) => paragraph(`Careful: ${text}`, "soft")),
    );
  }

  async function ask() {
    const mine = ++last;
    const values = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value.trim()) values.set(name, value);
    try {
      const reply = await fetch(`v1/predict?${values}`, { headers: { accept: "application/json" } });
      const said = await reply.json();
      if (mine !== last) return;
      if (reply.ok) show(said);
      else place.replaceChildren(paragraph(said.error, "what"));
    } catch {
      if (mine === last) place.replaceChildren(paragraph("The service does not answer.", "what"));
    }
  }

  function soon() {
    clearTimeout(waits);
    waits = setTimeout(ask, 250);
  }

  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waits);
    ask();
  });
  ask();
})();
