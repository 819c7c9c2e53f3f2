(() => {
  // The grid has one path a group; which cell is meant follows from where the pointer is.
  for (const grid of document.querySelectorAll("svg.ranks")) {
    const cells = JSON.parse(grid.dataset.cells);
    const size = Number(grid.dataset.size), columns = Number(grid.dataset.columns);
    const frame = grid.querySelector(".chosen"), told = document.getElementById("cell");
    let chosen = -1;
    const choose = (number) => {
      if (number < 0 || number >= cells.length) return;
      chosen = number;
      frame.classList.add("on");
      frame.setAttribute("x", (number % columns) * size);
      frame.setAttribute("y", Math.floor(number / columns) * size);
      const [name, group, note] = cells[number];
      const wait = document.querySelector(`#group${group} .told`);
      told.textContent = `${name}: ${note || (wait ? wait.textContent : "no stack")}`;
    };
    const open = () => {
      const entry = chosen < 0 ? null : document.getElementById(`group${cells[chosen][1]}`);
      if (!entry) return;
      entry.hidden = false;
      entry.open = true;
      entry.querySelector("summary").focus();
      entry.scrollIntoView({ block: "start" });
    };
    const under = (event) => {
      const box = grid.getBoundingClientRect(), scale = grid.viewBox.baseVal.width / box.width;
      const column = Math.floor(((event.clientX - box.left) * scale) / size);
      return column < columns ? Math.floor(((event.clientY - box.top) * scale) / size) * columns + column : -1;
    };
    grid.addEventListener("pointermove", (event) => choose(under(event)));
    grid.addEventListener("click", (event) => { choose(under(event)); open(); });
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    grid.addEventListener("keydown", (event) => {
      if (event.key in steps) {
        event.preventDefault();
        choose(chosen < 0 ? 0 : chosen + steps[event.key]);
      } else if (event.key === "Enter") {
        open();
      }
    });
    // Who is searched for by number is shown in the grid as well.
    const search = document.getElementById("search");
    if (search) {
      const places = new Map(cells.map((cell, number) => [cell[0].toLowerCase(), number]));
      search.addEventListener("input", () => {
        const words = search.value.trim().toLowerCase().replace(/^rank\s+/, "rank");
        const number = places.get(words) ?? places.get(`rank${words}`);
        if (number !== undefined) choose(number);
      });
    }
  }
})();
