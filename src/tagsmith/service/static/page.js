// The page: what is typed goes to the service when the typing pauses; what comes back is shown beside and in the text.

import { Unauthorised, ask, curl, useToken } from "./api.js";
import { shade, spans } from "./marks.js";
import { TASKS, make, percent } from "./tasks.js";

const PAUSE = 350; // milliseconds without a key
const part = (id) => document.getElementById(id);
const state = { info: null, task: "hashtags", sent: null, found: null, evidence: null, seed: 1, waiting: null, timer: 0, running: null };

const fields = () => ({ text: part("text").value, title: part("title").value, question: part("question").value, seed: state.seed });
const letters = (text) => Array.from(text).length;

// evidence

function paint(strong = []) {
  const { words = [], segments = [] } = state.evidence || {};
  shade(part("shade"), part("text").value, segments, words, strong);
}

function forget() {
  state.evidence = null;
  paint();
}

// asking

function modelFor(task) {
  const language = part("language").value;
  const models = state.info.tabs[task].models;
  const fitting = models.filter((one) => !language || one.language === language);
  if (language && !fitting.length) throw new Error(`No ${TASKS[task].label.toLowerCase()} model for this language is loaded.`);
  // without a language the service chooses by the text, among the models of this task if they are all the route has
  const others = state.info.routes[TASKS[task].path].models.length > models.length;
  return language || others || models.length === 1 ? fitting[0].name : undefined;
}

function later() {
  clearTimeout(state.timer);
  state.timer = setTimeout(now, PAUSE);
}

async function now() {
  clearTimeout(state.timer);
  if (state.running) state.running.abort();
  const task = TASKS[state.task];
  const given = fields();
  if (!state.info || !given.text.trim() || (task.ready && !task.ready(given))) {
    empty();
    return;
  }
  const control = new AbortController();
  state.running = control;
  part("results").setAttribute("aria-busy", "true");
  try {
    const body = task.body(given);
    const model = modelFor(state.task);
    if (model) body.parameters.model = model;
    const started = performance.now();
    const found = await ask(task.path, body, control.signal);
    const near = task.near && state.info.index ? await ask("/nearest", { inputs: given.text, parameters: { top: 5 } }, control.signal) : null;
    if (control.signal.aborted) return;
    Object.assign(state, { sent: { path: task.path, body }, found });
    fail(null);
    show(Math.round(performance.now() - started), near);
  } catch (problem) {
    if (problem.name !== "AbortError") fail(problem);
  } finally {
    if (state.running === control) part("results").setAttribute("aria-busy", "false");
  }
}

// showing

function show(milliseconds, near) {
  const task = TASKS[state.task];
  const act = { press, look: (strong) => paint(strong), has: (tag) => has(tag.text), copy };
  const { elements, words, segments, said } = task.show(state.found, act);
  state.evidence = { words, segments };
  part("results").replaceChildren(...elements);
  part("status").textContent = said.length ? `${said.length} found in ${milliseconds} ms` : `nothing found, ${milliseconds} ms`;
  part("copy").hidden = false;
  part("again").hidden = !task.again;
  showNear(near);
  paint();
}

function showNear(near) {
  part("near").hidden = !near || !near.nearest.length;
  if (!near) return;
  part("near-list").replaceChildren(...near.nearest.map((one) => {
    const lent = make("span", { className: "lent" }, ...one.tags.map((tag) => {
      const made = make("button", { type: "button", className: "quiet", textContent: `#${tag}` });
      made.addEventListener("click", () => press({ text: tag }));
      return made;
    }));
    return make("li", {}, make("span", { textContent: one.text }), make("span", { className: "score", textContent: percent(one.score) }), lent);
  }));
}

function empty() {
  Object.assign(state, { found: null, sent: null });
  fail(null);
  forget();
  const task = TASKS[state.task];
  const what = task.fields.includes("question") ? "Give a passage and a question." : "Type or paste a text; the answer comes when you pause.";
  part("results").replaceChildren(make("p", { className: "empty", textContent: what }));
  part("results").setAttribute("aria-busy", "false");
  part("status").textContent = "";
  part("copy").hidden = true;
  part("near").hidden = true;
}

function fail(problem) {
  part("error").hidden = !problem;
  part("error").textContent = problem ? problem.message : "";
  part("token-form").hidden = !(problem instanceof Unauthorised);
  if (problem) part("status").textContent = "";
}

// hashtags into the post

const has = (name) => new RegExp(`(^|\\s)#${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\p{N}_])`, "iu").test(part("text").value);

function press(tag) {
  if (!TASKS[state.task].adds) {
    copy(tag.text, "The phrase is copied.");
    return;
  }
  if (has(tag.text)) return;
  const text = part("text");
  text.value = `${text.value.trimEnd()} #${tag.text} `;
  counted();
  paint();
  const pressed = document.activeElement;
  const place = [...part("results").querySelectorAll("button")].indexOf(pressed);
  // the tags stay as they were: what was added came from them
  const { elements } = TASKS[state.task].show(state.found, { press, look: (strong) => paint(strong), has: (one) => has(one.text), copy });
  part("results").replaceChildren(...elements);
  if (place >= 0) part("results").querySelectorAll("button")[place].focus();
  part("status").textContent = `#${tag.text} added to the post`;
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not a secure page, or not allowed: the old way
    const holder = make("textarea", { value: text });
    document.body.append(holder);
    holder.select();
    document.execCommand("copy");
    holder.remove();
  }
  part("status").textContent = said;
}

function counted() {
  const most = state.info ? state.info.limits.characters : 0;
  part("count").textContent = `${letters(part("text").value).toLocaleString("en")}${most ? ` of ${most.toLocaleString("en")}` : ""} characters`;
}

// tasks

function choose(name, focus = false) {
  const task = TASKS[name];
  if (!state.info.tabs[name].models.length) {
    part("missing").hidden = false;
    part("missing-task").textContent = task.label.toLowerCase();
    part("missing-command").textContent = state.info.tabs[name].load;
    part("missing-folder").hidden = !state.info.tabs[name].load.includes("FOLDER");
    return;
  }
  part("missing").hidden = true;
  state.task = name;
  for (const tab of part("tasks").children) {
    const own = tab.id === `task-${name}`;
    tab.setAttribute("aria-selected", String(own));
    tab.tabIndex = own ? 0 : -1;
    if (own && focus) tab.focus();
  }
  part("panel").setAttribute("aria-labelledby", `task-${name}`);
  part("answers-label").textContent = task.head;
  part("text-label").textContent = task.text;
  part("title-field").hidden = !task.fields.includes("title");
  part("question-field").hidden = !task.fields.includes("question");
  part("legend").replaceChildren(...task.legend.map(([kind, words]) => make("span", {}, make("i", { className: kind }), words)));
  empty();
  now();
}

function addTasks() {
  part("tasks").replaceChildren(...Object.entries(TASKS).map(([name, task]) => {
    const loaded = state.info.tabs[name].models.length > 0;
    const tab = make("button", { type: "button", id: `task-${name}`, role: "tab", textContent: task.label });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panel");
    tab.setAttribute("aria-selected", "false");
    tab.tabIndex = -1;
    if (!loaded) {
      tab.setAttribute("aria-disabled", "true");
      tab.title = `Not loaded. To load it: ${state.info.tabs[name].load}`;
    }
    tab.addEventListener("click", () => choose(name));
    return tab;
  }));
}

part("tasks").addEventListener("keydown", (event) => {
  const tabs = [...part("tasks").children];
  const place = tabs.indexOf(document.activeElement);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const goal = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step && (place + step + tabs.length) % tabs.length;
  if (goal === undefined || place < 0) return;
  event.preventDefault();
  tabs[goal].focus();
  choose(tabs[goal].id.replace("task-", ""));
});

// the rest

function themed() {
  const dark = document.documentElement.dataset.theme === "dark";
  part("theme").setAttribute("aria-pressed", String(dark));
}

part("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("tagsmith-theme", theme); } catch { /* for this page only */ }
  themed();
});

for (const id of ["text", "title", "question"]) {
  part(id).addEventListener("input", () => {
    if (id === "text") { forget(); counted(); }
    later();
  });
}
part("language").addEventListener("change", () => {
  part("text").lang = part("language").value;
  now();
});
part("sample").addEventListener("click", () => {
  for (const [id, value] of Object.entries({ title: "", question: "", ...TASKS[state.task].sample })) part(id).value = value;
  counted();
  now();
});
part("clear").addEventListener("click", () => {
  for (const id of ["text", "title", "question"]) part(id).value = "";
  counted();
  empty();
  part("text").focus();
});
part("again").addEventListener("click", () => {
  state.seed += 1;
  now();
});
part("copy-json").addEventListener("click", () => copy(JSON.stringify(state.found, null, 2), "The answer is copied as JSON."));
part("copy-curl").addEventListener("click", () => copy(curl(state.sent.path, state.sent.body), "The request is copied as curl."));
part("missing-copy").addEventListener("click", () => copy(part("missing-command").textContent, "The command is copied."));
part("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(part("token").value);
  start();
});

async function start() {
  themed();
  counted();
  try {
    state.info = await ask("/info");
  } catch (problem) {
    fail(problem);
    return;
  }
  const names = state.info.models.map((one) => one.name);
  part("models").textContent = `Tagsmith ${state.info.version} with ${names.join(", ")}. Nothing leaves this service.`;
  addTasks();
  counted();
  const first = Object.keys(TASKS).find((name) => state.info.tabs[name].models.length);
  if (first) choose(first);
  else fail(new Error(`No model for this page is loaded. This command loads one: ${state.info.tabs.hashtags.load}`));
}

start();
