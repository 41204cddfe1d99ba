// Showing only what is of one queue pair, of one thread, or of one kind. What is chosen is in the page's address.
(() => {
  const { run, things, parts, release } = timeline;
  const tools = document.getElementById("tools");
  const kind = (i) => run.entries[i][1].split(",")[0];
  const kinds = [...new Set(things.map((thing) => kind(thing.dataset.i)))].sort();
  const FILTERS = [
    ["qp", "queue pair", run.queuePairs.map(([qp, whose]) => [qp, `queue pair ${qp}, ${whose}`]), (i, qp) => run.entries[i][9].includes(Number(qp))],
    ["thread", "thread", run.threads.map((name, number) => [number, name]), (i, thread) => run.entries[i][8] === Number(thread)],
    ["kind", "kind", kinds.map((name) => [name, name]), (i, name) => kind(i) === name],
  ];
  const filters = FILTERS.filter(([, , choices]) => choices.length > 1).map(([name, label, choices, is]) => {
    const select = document.createElement("select");
    select.setAttribute("aria-label", label);
    select.append(new Option(`every ${label}`, ""), ...choices.map(([value, text]) => new Option(text, value)));
    tools.insertBefore(select, tools.querySelector("button"));
    return { name, select, is };
  });

  function apply() {
    release();
    const chosen = filters.filter(({ select }) => select.value !== "");
    const out = new Set();
    for (const thing of things) {
      const i = thing.dataset.i;
      if (!chosen.every(({ select, is }) => is(i, select.value))) out.add(i);
      thing.classList.toggle("out", out.has(i));
    }
    for (const [part, of] of parts) part.classList.toggle("out", of.some((i) => out.has(i)));
    for (const { select } of filters) select.classList.toggle("chosen", select.value !== "");
    tools.querySelector("input").dispatchEvent(new Event("input"));
    return chosen;
  }

  function read() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    for (const { name, select } of filters) {
      select.value = wanted.get(name) || "";
      // Of another run.
      if (select.selectedIndex < 0) select.value = "";
    }
    apply();
  }

  for (const { select } of filters) {
    select.addEventListener("change", () => {
      const chosen = apply().map(({ name, select: { value } }) => [name, value]);
      history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
    });
  }
  addEventListener("hashchange", read);
  if (location.hash) read();
})();
