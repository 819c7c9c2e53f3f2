"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const entries = all("[data-entry]");

  // What is searched in and filtered by status: everything marked data-entry.
  const texts = new Map(entries.map((entry) => [entry, entry.textContent.toLowerCase()]));
  const filter = () => {
    const words = (search ? search.value : "").toLowerCase().split(/\s+/).filter(Boolean);
    const off = new Set(all("button.status[aria-pressed=false]").map((button) => button.dataset.status));
    let count = 0;
    for (const entry of entries) {
      const text = texts.get(entry);
      entry.hidden = off.has(entry.dataset.entry) || !words.every((word) => text.includes(word));
      if (!entry.hidden) count += 1;
    }
    if (shown) shown.textContent = count === entries.length ? "" : `${count} of ${entries.length} shown`;
  };
  for (const button of all("button.status")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
      filter();
    });
  }
  if (search) search.addEventListener("input", filter);

  for (const button of all("button.copy")) {
    button.addEventListener("click", async (event) => {
      event.preventDefault();
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "copied";
      } catch {
        button.textContent = "select it by hand";
      }
    });
  }

  const focusable = (entry) => entry.querySelector("summary, a, button") || entry;
  const move = (step) => {
    const seen = entries.filter((entry) => !entry.hidden);
    if (!seen.length) return;
    const at = seen.findIndex((entry) => entry.contains(document.activeElement));
    const next = at < 0 ? (step > 0 ? 0 : seen.length - 1) : Math.min(Math.max(at + step, 0), seen.length - 1);
    focusable(seen[next]).focus();
    seen[next].scrollIntoView({ block: "nearest" });
  };
  const open = (state) => all("details").forEach((details) => { details.open = state; });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = document.activeElement === search;
    if (event.key === "Escape" && search) {
      search.value = "";
      search.blur();
      filter();
    } else if (!typing && event.key === "/" && search) {
      event.preventDefault();
      search.focus();
    } else if (!typing && (event.key === "j" || event.key === "k")) {
      move(event.key === "j" ? 1 : -1);
    } else if (!typing && (event.key === "e" || event.key === "c")) {
      open(event.key === "e");
    }
  });

  // Paper can't be clicked: everything is open while it is printed.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((details) => { details.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));

  // Flame graphs: a box that is chosen gets the whole width; the first box leads back.
  for (const flame of all("svg.flame")) {
    const width = flame.viewBox.baseVal.width;
    const boxes = all("g.box", flame);
    const zoom = (chosen) => {
      const from = Number(chosen.dataset.x), share = Number(chosen.dataset.w), level = Number(chosen.dataset.y);
      for (const box of boxes) {
        const x = Number(box.dataset.x), w = Number(box.dataset.w), above = Number(box.dataset.y) < level;
        const inside = x >= from - 1e-6 && x + w <= from + share + 1e-6;
        const around = above && x <= from + 1e-6 && x + w >= from + share - 1e-6;
        box.style.display = inside || around ? "" : "none";
        box.classList.toggle("dim", around);
        const left = around ? 0 : ((x - from) / share) * width;
        const size = around ? width : (w / share) * width;
        const [rect, text] = [box.querySelector("rect"), box.querySelector("text")];
        rect.setAttribute("x", left);
        rect.setAttribute("width", Math.max(size - 0.6, 0.4));
        text.setAttribute("x", left + 4);
        const letters = Math.floor((size - 6) / 7.3), label = box.dataset.text;
        text.textContent = label.length <= letters ? label : letters > 3 ? label.slice(0, letters - 1) + "…" : "";
      }
    };
    for (const box of boxes) {
      box.addEventListener("click", () => zoom(box));
      box.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          zoom(box);
        }
      });
    }
  }
})();
