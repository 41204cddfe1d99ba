"use strict";
// Finds the sections of the site for mdBook's search field, in place of its index of words: that is four times as
// large as the texts, and has no words of Chinese, which is written without spaces.
window.elasticlunr.Index.load = ({ sections }) => {
  const HAN = /\p{Script=Han}+/u;
  const PIECES = /\p{Script=Han}+|[\p{L}\p{N}_]+/gu;
  const OF_WORD = /[\p{L}\p{N}]/u;
  const own = document.documentElement.lang;
  const texts = sections.map(({ title, body }) => [title.toLowerCase(), body.toLowerCase()]);

  // Where words begin with this, those of Chinese anywhere; ibv_post_send is three words.
  function places(text, part) {
    const found = [];
    for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) {
      if (HAN.test(part) || at === 0 || !OF_WORD.test(text[at - 1])) found.push(at);
    }
    return found;
  }

  // The parts of a query, each with what may stand for it: all forms of an English word begin with its stem, and of
  // Chinese words that were typed without a space between them all pairs of signs are somewhere.
  function parts(query) {
    return (query.toLowerCase().match(PIECES) || []).map((piece) => {
      if (!HAN.test(piece)) return { piece, instead: [window.elasticlunr.stemmer(piece)] };
      const signs = [...piece];
      const pairs = signs.slice(1).map((sign, at) => signs[at] + sign);
      return { piece, instead: signs.length > 2 ? pairs : [] };
    });
  }

  // How well a text fits a part: as it was typed, or what may stand for it.
  function fit(text, { piece, instead }) {
    const whole = places(text, piece).length;
    if (whole > 0) return 1 + Math.min(whole, 8) / 8;
    const counts = instead.map((other) => places(text, other).length);
    return counts.length > 0 && counts.every((count) => count > 0) ? 0.5 : 0;
  }

  function find(query) {
    const wanted = parts(query);
    let most = 1;
    let results = [];
    sections.forEach((section, ref) => {
      const [title, body] = texts[ref];
      let has = 0;
      let score = 0;
      for (const part of wanted) {
        const [inTitle, inBody] = [fit(title, part), fit(body, part)];
        if (inTitle + inBody > 0) has += 1;
        // A title that says little else is about it.
        score += inTitle * (3 + 12 / (2 + title.length / 8)) + inBody;
      }
      // All that was asked for, or as much of it as there is anywhere.
      if (has < most || has === 0) return;
      if (has > most) [most, results] = [has, []];
      const doc = section.lang === "en" ? section : excerpt(section, wanted, body);
      results.push({ ref, doc, score: score * section.rank, isOwn: section.lang === own });
    });
    // In the reader's language first.
    return results.sort((a, b) => b.isOwn - a.isOwn || b.score - a.score);
  }

  // mdBook shows some words around those that it finds, and takes what is between two spaces for a word.
  function excerpt(section, wanted, text) {
    const shown = wanted.flatMap(({ piece, instead }) => (places(text, piece).length > 0 ? [piece] : instead));
    const all = shown.flatMap((part) => places(text, part).map((at) => [at, at + part.length]));
    all.sort(([a], [b]) => a - b);
    const from = Math.max(0, (all.length > 0 ? all[0][0] : 0) - 40);
    let body = from > 0 ? "…" : "";
    let last = from;
    const to = Math.min(text.length, from + 160);
    for (const [begin, end] of all.filter(([begin, end]) => begin >= from && end <= to)) {
      if (begin < last) continue;
      body += `${section.body.slice(last, begin)} ${section.body.slice(begin, end)} `;
      last = end;
    }
    return { ...section, body: body + section.body.slice(last, to) + (to < text.length ? "…" : "") };
  }

  return { search: find };
};
