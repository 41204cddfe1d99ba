// What the browser test does with a page. The outcome is in the element `outcome`.
addEventListener("load", () => {
  const failures = window.testErrors;
  const check = (holds, what) => holds || failures.push(what);
  const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const main = document.querySelector("main");
  const card = document.getElementById("card");
  const pictures = [...main.children].filter((one) => getComputedStyle(one).display !== "none");
  const [picture] = pictures;
  const things = [...picture.querySelectorAll("[data-i]")];
  const seen = (element) => element.checkVisibility();

  check(performance.getEntriesByType("resource").length === 0, "something was fetched");
  check(pictures.length === 1 && picture.className === (innerWidth < 980 ? "narrow" : "wide"), `${picture.className} is shown on ${innerWidth} pixels`);
  const whole = document.documentElement;
  check(main.scrollWidth <= main.clientWidth + 1 && whole.scrollWidth <= innerWidth, "the picture is wider than its place");

  // Folds open, without the script as well.
  const hidden = things.filter((thing) => !seen(thing));
  const folds = [...picture.querySelectorAll("details")];
  check((hidden.length > 0) === (folds.length > 0), "what is not seen is folded");
  for (const fold of folds) fold.querySelector("summary").click();
  check(things.every(seen), "all can be unfolded");

  // Texts in the fonts of this browser.
  const apart = (root) => {
    const texts = [...root.querySelectorAll("text")].filter((text) => text.textContent).map((text) => [text, text.getBoundingClientRect()]);
    texts.sort((a, b) => a[1].top - b[1].top);
    for (let a = 0; a < texts.length; a += 1) {
      const box = texts[a][1];
      for (let b = a + 1; b < texts.length && texts[b][1].top < box.bottom; b += 1) {
        const other = texts[b][1];
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        // Boxes have room for accents and descenders, which may be empty.
        const head = texts[a][0].closest(".heads") || texts[b][0].closest(".heads");
        check(head || wide < 2 || high < 5, `texts overlap: ${texts[a][0].textContent} / ${texts[b][0].textContent}`);
      }
    }
    return texts;
  };
  apart(picture);

  // As it is printed: A4 landscape between its margins, no letters of less than nine points.
  const paper = document.getElementById("paper");
  check(!seen(paper), "what is for paper is not on the screen");
  paper.style.cssText = "display: block; width: 285mm";
  const printed = apart(paper);
  const told = (root) => [...root.querySelectorAll(".t, .why, .label")].filter((text) => !text.closest(".fold .block")).length;
  const onScreen = told(main.querySelector(".wide"));
  check(told(paper) >= onScreen && printed.length > 0, "all that is not folded is printed");
  for (const [text, box] of printed) {
    const picture = text.ownerSVGElement;
    const points = parseFloat(getComputedStyle(text).fontSize) * picture.getBoundingClientRect().width / picture.viewBox.baseVal.width * 0.75;
    check(points >= 8.95, `${text.textContent} is printed with ${points} points`);
    const place = picture.getBoundingClientRect();
    check(box.left >= place.left - 1 && box.right <= place.right + 1, `${text.textContent} is cut`);
  }
  paper.style.cssText = "";

  // The keyboard.
  const first = things.find((thing) => thing.tabIndex === 0);
  if (first) {
    first.focus();
    check(document.activeElement === first, "the first thing has the focus");
    check(!card.hidden, "focus shows what there is to know");
    key("ArrowDown");
    check(document.activeElement === things[1], "down goes to the next");
    key("ArrowUp");
    check(document.activeElement === first, "up goes back");
    key("End");
    check(document.activeElement === things.at(-1), "End goes to the last");
    check(things.filter((thing) => thing.tabIndex === 0).length === 1, "one thing has a place in the order of Tab");
  }

  // What belongs together.
  const send = things.find((thing) => thing.getAttribute("aria-label").includes("ibv_post_send"));
  if (send) {
    send.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    check(card.classList.contains("kept"), "a click keeps what is shown");
    const hot = things.filter((thing) => thing.classList.contains("hot"));
    check(hot.length >= 3, `a request is highlighted with what belongs to it, not with ${hot.length}`);
    check(hot.some((thing) => thing.classList.contains("completion")), "its completion is");
    check(main.querySelector(".line.hot"), "its arrow is");
    const code = card.querySelector("pre");
    check(code && code.querySelectorAll("code").length > 2, "the lines where it was called are shown");
    check(code && code.querySelector(".at").textContent.includes("called here"), "that line is marked");
    check(card.textContent.includes("manual pageibv_post_send(3)"), "its manual page is told");
    const read = [...card.querySelectorAll(".read li")].map((item) => item.textContent);
    check(read.join() === "In C placed in <browser>.c,Slides, p. 7 Sends.", `what there is to read: ${read}`);
    const leads = card.querySelectorAll(".read a");
    check(leads.length === 1 && leads[0].href.endsWith("/docs/a%20page.html#seven"), "and where there is more");
    const other = things.find((thing) => thing !== send);
    other.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    check(/ is [0-9.]+ .?s (before|after) ibv_post_send/.test(card.querySelector(".between").textContent), "the time to another is told");
    check(card.textContent.includes("work requestsend 1") && card.textContent.includes("metreceive 1"), "its number and that of what it met are told");
    check(card.textContent.includes("wr_id") && card.textContent.includes("send_flags"), "all members are shown");
    document.activeElement.blur();
    send.focus();
    key("ArrowRight");
    check(document.activeElement !== send && document.activeElement.classList.contains("hot"), "right goes to what belongs to it");
    key("Escape");
    check(card.hidden && !main.querySelector(".hot"), "Escape lets it go");
  }
  const region = things.find((thing) => thing.getAttribute("aria-label").includes("ibv_reg_mr"));
  if (region) {
    region.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const users = things.filter((thing) => thing.classList.contains("hot") && thing !== region);
    check(users.length > 0 && users.every((thing) => thing.matches(".send, .receive")), "who uses a region is highlighted");
    // Some of them are not on a phone.
    const used = Number(card.querySelector(".users").textContent.match(/^used by (\d+) work request/)?.[1]);
    check(pictures[0].className === "wide" ? used === users.length : used >= users.length, `and counted: ${users.length}`);
    users[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    check(card.textContent.includes("memory of ibv_reg_mr"), "a work request leads to its region");
    key("Escape");
  }
  const link = document.querySelector(".failures [data-go]");
  if (link) {
    link.click();
    check(document.activeElement.dataset.i === link.dataset.go, "a listed failure leads to its place");
    check(document.activeElement.classList.contains("bad"), "which stands out");
  }

  // Finding.
  const press = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const field = document.querySelector("#tools input");
  const count = document.querySelector("#tools output");
  const shown = () => things.filter((thing) => getComputedStyle(thing).visibility === "visible");
  if (send) {
    press("/");
    check(document.activeElement === field, "/ goes to the field");
    field.value = "ibv_post_SEND wr_send";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    const found = things.filter((thing) => thing.classList.contains("found"));
    check(found.includes(send) && found.length < things.length, `sends are found, not ${found.length} things`);
    check(count.value === `${found.length} of ${things.length}`, "how many is told");
    key("Enter");
    check(found.some((thing) => thing.tabIndex === 0), "Enter goes to one");
    key("Escape");
    check(!main.querySelector(".found") && field.value === "", "Escape ends it");

    // One step at a time.
    press("l");
    check(shown().length === 1 && count.value === `1 of ${things.length}`, "the first step is alone");
    press("ArrowRight");
    press(" ");
    check(shown().length === 3, "each key is one step");
    check(shown()[2].classList.contains("now"), "the last one is marked");
    press("ArrowLeft");
    check(shown().length === 2, "and back");
    const drawn = [...main.querySelectorAll(".line")].filter((line) => getComputedStyle(line).visibility === "visible");
    check(drawn.length < main.querySelectorAll(".line").length, "arrows to what comes later are not there");
    press("End");
    check(shown().length === things.length, "the end is all of it");
    press("Escape");
    check(!document.querySelector(".later, .now, .lecture"), "Escape shows the whole");
  }

  // Filters.
  const inside = () => things.filter((thing) => !thing.classList.contains("out"));
  const choose = (label, value) => {
    const select = document.querySelector(`#tools select[aria-label="${label}"]`);
    select.value = value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
  };
  if (send) {
    choose("kind", "completion");
    check(inside().length > 1 && inside().every((thing) => thing.classList.contains("completion")), "one kind");
    check(count.value === `${inside().length} of ${things.length}` && location.hash === "#kind=completion", `${count.value} ${location.hash}`);
    choose("kind", "");
    choose("queue pair", "4097");
    check(inside().includes(send) && inside().length < things.length, "one queue pair");
    choose("queue pair", "");
    choose("thread", "1");
    check(inside().length > 0 && inside().length < things.length, "one thread");
    location.hash = "#kind=call";
    dispatchEvent(new HashChangeEvent("hashchange"));
    check(inside().length > 0 && inside().every((thing) => thing.classList.contains("call")), "what the address says");
    choose("kind", "");
    check(inside().length === things.length && count.value === "", "all again");
  }
  const outcome = document.body.appendChild(document.createElement("pre"));
  outcome.id = "outcome";
  outcome.textContent = failures.length === 0 ? "all is well" : failures.join("\n");
});
