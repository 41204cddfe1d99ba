"use strict";
const timeline = (() => {
  const run = JSON.parse(document.getElementById("run").textContent);
  const main = document.querySelector("main");
  const card = document.getElementById("card");
  // The picture for a screen or that for a phone, whichever the style sheet shows.
  const isShown = (one) => getComputedStyle(one).display !== "none";
  const picture = [...main.children].find(isShown);
  const things = [...picture.querySelectorAll("[data-i]")];
  const byNumber = new Map(things.map((thing) => [thing.dataset.i, thing]));
  const parts = [...picture.querySelectorAll("[data-b]")].map((part) => [part, part.dataset.b.split(" ")]);
  let kept = null;
  let hot = [];

  const groupsOf = (i) => run.entries[i][5].map((group) => run.groups[group]);
  // Of a memory region, how many work requests use it, and those that are here.
  const users = (i) => run.regions[i] || [0, []];
  const regions = new Map();
  for (const [region, [, those]] of Object.entries(run.regions)) {
    for (const user of those) if (Number(region) < user) regions.set(user, [...(regions.get(user) || []), Number(region)]);
  }
  const mates = (i) => {
    const all = new Set([...groupsOf(i).flat(), ...users(i)[1]]);
    all.add(Number(i));
    return [...all].sort((a, b) => a - b);
  };

  function clear() {
    for (const element of hot) element.classList.remove("hot", "here");
    hot = [];
    main.classList.remove("dim");
    card.hidden = true;
    card.classList.remove("kept");
  }

  function element(parent, name, text) {
    const made = parent.appendChild(document.createElement(name));
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function duration(ns) {
    if (ns < 1e3) return `${ns} ns`;
    if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} \u00b5s`;
    return ns < 1e9 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e9).toFixed(3)} s`;
  }

  // The lines where a call is made, that one marked.
  function source(of) {
    const { file, first, line, lines, changed } = of;
    element(card, "p", changed ? `${file}, which has changed since` : file);
    const list = element(card, "pre");
    list.tabIndex = 0;
    lines.forEach((text, number) => {
      const shown = element(list, "code", text === "" ? " " : text);
      shown.dataset.line = first + number;
      shown.classList.toggle("at", first + number === line);
    });
    return list;
  }

  // What there is to read about the function of a call.
  function read(texts) {
    const list = element(card, "ul");
    list.className = "read";
    for (const { text, link } of texts) {
      const item = element(list, "li");
      const [about, said] = text.split(/: (.*)/s);
      const name = element(item, link ? "a" : "b", about);
      if (link) name.href = link;
      if (said) element(item, "span", ` ${said}`);
    }
  }

  // An entry that a click leads to.
  function link(list, before, i) {
    const [time, , name, , members] = run.entries[i];
    const request = members.find(([member]) => member === "work request");
    const button = element(element(list, "li", before), "button", `${name}${request ? ` ${request[1]}` : ""}, ${time}`);
    button.dataset.go = i;
  }

  function between(thing) {
    const [, , name, , , , from] = run.entries[kept.dataset.i];
    const [, , other, , , , to] = run.entries[thing.dataset.i];
    const order = to < from ? "before" : "after";
    card.querySelector(".between").textContent = `${other} is ${duration(Math.abs(to - from))} ${order} ${name}`;
  }

  function show(thing) {
    clear();
    const i = thing.dataset.i;
    const [time, kind, name, participant, members, , , lines, , , about] = run.entries[i];
    const belongs = mates(i);
    const numbers = new Set(belongs.map(String));
    hot = [...numbers].map((number) => byNumber.get(number)).filter(Boolean);
    for (const [part, of] of parts) if (of.every((number) => numbers.has(number))) hot.push(part);
    for (const element of hot) element.classList.add("hot");
    thing.classList.add("here");
    main.classList.add("dim");

    card.replaceChildren();
    element(card, "h3", name);
    element(card, "p", `${kind}, ${time}, ${participant}`);
    element(card, "p").className = "between";
    const list = element(card, "dl");
    for (const [member, value] of members) {
      element(list, "dt", member);
      element(list, "dd", value);
    }
    const [used] = users(i);
    if (run.regions[i]) element(card, "p", `used by ${used} work request${used === 1 ? "" : "s"}`).className = "users";
    const memory = (regions.get(Number(i)) || []).filter((region) => byNumber.has(String(region)));
    if (belongs.length > 1 || memory.length > 0) {
      const more = element(card, "ol");
      for (const other of belongs) if (String(other) !== i) link(more, "", other);
      for (const region of memory) link(more, "memory of ", region);
    }
    const box = thing.getBoundingClientRect();
    card.classList.toggle("left", box.left + box.width / 2 > innerWidth / 2);
    if (about !== null) read(run.references[about]);
    const code = lines && source(run.sources[lines]);
    card.hidden = false;
    const at = code && code.querySelector(".at");
    if (at) code.scrollTop = at.offsetTop - code.offsetTop - code.clientHeight / 2;
  }

  function keep(thing) {
    kept = thing;
    show(thing);
    card.classList.add("kept");
  }

  function release() {
    kept = null;
    clear();
  }

  function go(thing) {
    for (let fold = thing.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    for (const other of things) other.tabIndex = -1;
    thing.tabIndex = 0;
    thing.focus({ preventScroll: true });
    thing.scrollIntoView({ block: "center" });
  }

  const seen = (thing) => {
    if (thing.classList.contains("out")) return false;
    const fold = thing.closest("details");
    return !fold || fold.open;
  };

  main.addEventListener("pointerover", (event) => {
    const thing = event.target.closest("[data-i]");
    if (kept && thing && thing !== kept) return between(thing);
    if (kept) return;
    if (thing) show(thing);
    else clear();
  });
  main.addEventListener("pointerleave", () => kept || clear());
  main.addEventListener("click", (event) => {
    const thing = event.target.closest("[data-i]");
    if (thing) {
      if (kept === thing) return release();
      go(thing);
      keep(thing);
    } else if (!event.target.closest("summary")) release();
  });
  main.addEventListener("focusin", (event) => {
    const thing = event.target.closest("[data-i]");
    if (!thing) return;
    if (kept) keep(thing);
    else show(thing);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-go]");
    if (!link) return;
    event.preventDefault();
    const thing = byNumber.get(link.dataset.go);
    if (!thing) return;
    go(thing);
    keep(thing);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return release();
    const thing = event.target.closest ? event.target.closest("[data-i]") : null;
    if (!thing || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = things.indexOf(thing);
    let next;
    if (event.key === "ArrowDown") next = things.slice(at + 1).find(seen);
    else if (event.key === "ArrowUp") next = things.slice(0, at).reverse().find(seen);
    else if (event.key === "Home") next = things.find(seen);
    else if (event.key === "End") next = [...things].reverse().find(seen);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const around = mates(thing.dataset.i);
      const step = event.key === "ArrowRight" ? 1 : around.length - 1;
      next = byNumber.get(String(around[(around.indexOf(Number(thing.dataset.i)) + step) % around.length]));
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return kept === thing ? release() : keep(thing);
    } else return;
    event.preventDefault();
    if (next) go(next);
  });
  // A phone that is turned.
  addEventListener("resize", () => {
    if (!isShown(picture) && !matchMedia("print").matches) location.reload();
  });
  if (things.length > 0) things[0].tabIndex = 0;
  return { run, main, things, parts, seen, go, release };
})();
