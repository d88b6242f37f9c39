// The tasks: what each asks of the service, and how its answer is shown. Each `show` returns elements and evidence.

import { spans } from "./marks.js";

export const percent = (score) => `${Math.round(100 * score)}%`;

export function make(name, props = {}, ...children) {
  const { dataset, score, ...rest } = props;
  const made = Object.assign(document.createElement(name), rest);
  for (const [key, value] of Object.entries(rest)) if (key.startsWith("aria-")) made.setAttribute(key, value);
  if (score !== undefined) made.style.setProperty("--score", Math.min(1, score).toFixed(3));
  made.append(...children);
  return made;
}

const list = (items) => make("ul", { className: "chips" }, ...items.map((one) => make("li", {}, one)));
const nothing = (why) => [make("p", { className: "empty", textContent: why })];

function chip(tag, { press, look, pressed, mark = "" }) {
  const where = tag.kind === "present" ? "in the text" : "";
  const made = make(
    "button",
    { type: "button", className: "chip", score: tag.score, "aria-pressed": String(Boolean(pressed)) },
    make("span", { className: "name", textContent: mark + tag.text }),
    make("span", { className: "note", textContent: pressed ? "added" : where }),
    make("span", { className: "score", textContent: percent(tag.score) }),
  );
  made.addEventListener("click", () => press(tag));
  for (const event of ["mouseenter", "focus"]) made.addEventListener(event, () => look(spans(tag.spans)));
  for (const event of ["mouseleave", "blur"]) made.addEventListener(event, () => look([]));
  return made;
}

// scores with and without the title, side by side
function compared(rows, what) {
  const head = make("tr", {}, ...[what, "with title", "without"].map((name) => make("th", { scope: "col", textContent: name })));
  const body = rows.map(({ name, first, second }) => make(
    "tr", {},
    make("th", { scope: "row", textContent: name }),
    ...[first, second].map((score, place) => make(
      "td", { className: score > (place ? first : second) ? "up" : "" },
      score === undefined ? "–" : percent(score), make("span", { className: "bar", score: score || 0 }),
    )),
  ));
  return [make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))];
}

function beside(first, second, name) {
  const rows = new Map(first.map((one) => [one[name], { name: one[name], first: one.score }]));
  for (const one of second) rows.set(one[name], { name: one[name], ...rows.get(one[name]), second: one.score });
  return [...rows.values()];
}

const titled = (fields, key) => ({ ...(fields.title.trim() ? { title: fields.title } : {}), [key]: fields.text });
const both = (fields, key) => (fields.title.trim() ? [titled(fields, key), { [key]: fields.text }] : titled(fields, key));
const tagWords = (row) => row.tags.flatMap((tag) => spans(tag.spans));

export const TASKS = {
  hashtags: {
    label: "Hashtags", head: "Hashtags", text: "Your post", path: "/tag", fields: [], adds: true, near: true,
    body: (fields) => ({ inputs: fields.text, parameters: { top: 6, evidence: true } }),
    show: (row, act) => ({
      elements: row.tags.length ? [list(row.tags.map((tag) => chip(tag, { ...act, mark: "#", pressed: act.has(tag) })))] : nothing("No tag comes to mind."),
      words: tagWords(row), segments: row.segments || [], said: row.tags.map((tag) => `#${tag.text}`),
    }),
    legend: [["word", "stands in the text"], ["read", "read by the model, deeper is more"]],
    sample: { text: "Walk-in vaccine clinic this Saturday at the town library, no appointment needed. Bring a friend and get your booster!" },
  },
  keyphrases: {
    label: "Keyphrases", head: "Keyphrases", text: "Text", path: "/tag", fields: ["title"],
    body: (fields) => ({ inputs: titled(fields, "text"), parameters: {} }),
    show: (row, act) => ({
      elements: row.tags.length ? [list(row.tags.map((tag) => chip(tag, act)))] : nothing("No keyphrase was found."),
      words: tagWords(row), segments: [], said: row.tags.map((tag) => tag.text),
    }),
    legend: [["word", "stands in the text"]],
    sample: { title: "Sparse attention for long documents", text: "We study sparse attention for long documents. A fixed window and a few global tokens keep memory linear while accuracy stays close to full attention." },
  },
  extract: {
    label: "Extract", head: "Keyphrases in the text", text: "Text", path: "/extract", fields: ["title"],
    body: (fields) => ({ inputs: both(fields, "text"), parameters: {} }),
    show: (found, act) => {
      const [row, bare] = [].concat(found);
      const shown = bare ? compared(beside(row.tags, bare.tags, "text"), "keyphrase") : [list(row.tags.map((tag) => chip(tag, act)))];
      const any = row.tags.length || (bare && bare.tags.length);
      return { elements: any ? shown : nothing("No keyphrase stands in the text."), words: tagWords(row), segments: [], said: row.tags.map((tag) => tag.text) };
    },
    legend: [["word", "a keyphrase"]],
    sample: { title: "Sparse attention for long documents", text: "We study sparse attention for long documents. A fixed window and a few global tokens keep memory linear while accuracy stays close to full attention." },
  },
  topic: {
    label: "Topic", head: "Topic", text: "Text", path: "/classify", fields: ["title"],
    body: (fields) => ({ inputs: both(fields, "body"), parameters: { top: 5 } }),
    show: (found) => {
      const [row, bare] = [].concat(found);
      const plain = () => [list(row.labels.map((one) => make(
        "div", { className: "chip", score: one.score },
        make("span", { className: "name", textContent: one.label }), make("span", { className: "score", textContent: percent(one.score) }),
      )))];
      return {
        elements: bare ? compared(beside(row.labels, bare.labels, "label"), "topic") : plain(),
        words: [], segments: [], said: row.labels.slice(0, 1).map((one) => one.label),
      };
    },
    legend: [],
    sample: { title: "Rates rise again", text: "The central bank raised its rate for the third time this year and said that more may follow." },
  },
  answer: {
    label: "Answer", head: "Answer", text: "Passage", path: "/answer", fields: ["question"],
    body: (fields) => ({ inputs: { question: fields.question, context: fields.text }, parameters: {} }),
    ready: (fields) => fields.question.trim() !== "",
    show: (row) => ({
      elements: row.answers.length ? [list(row.answers.map((one) => make(
        "div", { className: "chip", score: one.score },
        make("span", { className: "name", textContent: one.text }), make("span", { className: "score", textContent: percent(one.score) }),
      )))] : nothing("The passage does not say."),
      words: row.answers, segments: [], said: row.answers.map((one) => one.text),
    }),
    legend: [["word", "the answer"]],
    sample: { question: "Who won the final?", text: "Ada won the final in three sets. Ben, last year's champion, came second." },
  },
  reply: {
    label: "Reply", head: "Replies", text: "What was said", path: "/reply", fields: [], again: true,
    body: (fields) => ({ inputs: fields.text, parameters: { evidence: true, seed: fields.seed } }),
    show: (row, act) => ({
      elements: row.replies.length ? [list(row.replies.map((one) => {
        const made = make(
          "button", { type: "button", className: "chip", score: one.score, title: "Copy this reply" },
          make("span", { className: "name", textContent: one.text }), make("span", { className: "score", textContent: percent(one.score) }),
        );
        made.addEventListener("click", () => act.copy(one.text, "The reply is copied."));
        return made;
      })), ...(row.topics && row.topics.length ? [make("p", { className: "empty", textContent: `Topics: ${row.topics.join(", ")}` })] : [])] : nothing("Nothing to say."),
      words: [], segments: row.replies.length ? row.replies[0].attended || [] : [], said: row.replies.map((one) => one.text),
    }),
    legend: [["read", "attended to for the first reply"]],
    sample: { text: "just landed in Tokyo, ramen time" },
  },
};
