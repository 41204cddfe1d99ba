// Finding things, and presenting the page one step at a time.
(() => {
  const { run, main, things, parts, seen, go, release } = timeline;
  const tools = document.getElementById("tools");
  const [field, count, button] = ["input", "output", "button"].map((name) => tools.querySelector(name));
  let found = [];
  let steps = null;
  let at = 0;

  const texts = things.map((thing) => {
    const [, kind, name, participant, members] = run.entries[thing.dataset.i];
    return [kind, name, participant, ...members.map(([, value]) => value)].join(" ").toLowerCase();
  });

  function find() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (text) => words.every((word) => text.includes(word));
    const open = (thing) => !thing.classList.contains("out");
    const all = things.filter(open).length;
    found = words.length > 0 ? things.filter((thing, number) => open(thing) && has(texts[number])) : [];
    const those = new Set(found);
    for (const thing of things) thing.classList.toggle("found", those.has(thing));
    main.classList.toggle("finds", words.length > 0);
    if (words.length > 0) count.value = `${found.length} of ${all}`;
    else count.value = all < things.length ? `${all} of ${things.length}` : "";
  }

  function next(backwards) {
    const last = things.findIndex((thing) => thing.tabIndex === 0);
    const behind = (thing) => things.indexOf(thing) > last;
    const before = (thing) => things.indexOf(thing) < last;
    const thing = backwards ? found.findLast(before) || found.at(-1) : found.find(behind) || found[0];
    if (!thing) return;
    go(thing);
    field.focus({ preventScroll: true });
  }

  // What comes after the step is not there yet.
  function step(to) {
    at = Math.max(0, Math.min(to, steps.length - 1));
    const last = Number(steps[at].dataset.i);
    for (const thing of things) thing.classList.toggle("later", Number(thing.dataset.i) > last);
    for (const [part, of] of parts) part.classList.toggle("later", of.some((number) => Number(number) > last));
    for (const thing of things) thing.classList.toggle("now", thing === steps[at]);
    steps[at].scrollIntoView({ block: "center" });
    count.value = `${at + 1} of ${steps.length}`;
  }

  function lecture(on) {
    release();
    steps = on ? things.filter(seen).sort((a, b) => a.dataset.i - b.dataset.i) : null;
    if (on && steps.length === 0) steps = null;
    document.body.classList.toggle("lecture", steps !== null);
    button.textContent = steps ? "all at once" : "one step at a time";
    for (const element of document.querySelectorAll(".later, .now")) element.classList.remove("later", "now");
    field.disabled = steps !== null;
    if (steps) step(0);
    else find();
  }

  field.addEventListener("input", find);
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") next(event.shiftKey);
    if (event.key === "Escape") {
      field.value = "";
      find();
      field.blur();
    }
  });
  button.addEventListener("click", () => {
    button.blur();
    lecture(!steps);
  });
  const TO = {
    ArrowRight: () => at + 1, " ": () => at + 1, PageDown: () => at + 1, ArrowDown: () => at + 1,
    ArrowLeft: () => at - 1, Backspace: () => at - 1, PageUp: () => at - 1, ArrowUp: () => at - 1,
    Home: () => 0, End: () => steps.length - 1,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select")) return;
    const done = () => {
      event.preventDefault();
      event.stopPropagation();
    };
    if (event.key === "l" || event.key === "L") {
      done();
      lecture(!steps);
    } else if (event.key === "/" && !steps) {
      done();
      field.focus();
      field.select();
    } else if (steps && event.key === "Escape") {
      done();
      lecture(false);
    } else if (steps && TO[event.key]) {
      done();
      step(TO[event.key]());
    }
  }, true);
  tools.hidden = false;
})();
