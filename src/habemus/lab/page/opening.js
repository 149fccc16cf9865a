// @ts-check
// The dialog that opens runs, scenarios, traces, counterexamples and links.

import { byId, el, fill } from "./dom.js";
import { dialog, isOpen } from "./overlay.js";
import { t } from "./texts.js";

/** @typedef {import("./main.js").Lab} Lab */

const MOST_BYTES = 60_000_000;

/** @param {Lab} lab */
export function openDialog(lab) {
  const algorithms = lab.catalog.algorithms || [];
  const command = /^habemus run (.*)$/s.exec(lab.branch?.command || "")?.[1];
  const run = el("input", { type: "text", name: "run", spellcheck: false, autocomplete: "off", value: command || "ricart-agrawala -n 3", autofocus: true, "aria-label": t("open run"), "aria-describedby": "run-hint" });
  const check = el("input", { type: "text", name: "check", spellcheck: false, autocomplete: "off", placeholder: "maekawa -n 3", "aria-label": t("open check") });
  const link = el("input", { type: "text", name: "link", spellcheck: false, autocomplete: "off", "aria-label": t("open link") });
  /** @param {string} kind @param {any} field @param {string} button */
  const form = (kind, field, button) => el("form", { class: "line", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    if (field.value.trim()) lab.open({ [kind]: field.value.trim() });
  } }, field, el("button", { class: "primary", type: "submit" }, t(button)));
  const pick = el("select", { "aria-label": t("algorithm"), onchange: () => {
    if (pick.value) run.value = `${pick.value} -n ${/-n (\d+)/.exec(run.value)?.[1] || 3}`;
    run.focus();
  } }, el("option", { value: "" }, `${t("algorithm")}…`), ...algorithms.map((/** @type {any} */ each) => el("option", { value: each.name }, `${each.name} · ${each.title}`)));
  const file = el("input", { type: "file", accept: ".json,.jsonl,.txt", class: "hidden", tabIndex: -1, "aria-label": t("choose file"), onchange: () => file.files[0] && readFile(lab, file.files[0]) });
  const list = el("ul", { class: "scenarios" });
  const search = el("input", { type: "search", placeholder: t("search"), "aria-label": `${t("open scenario")}: ${t("search")}`, oninput: () => fillScenarios(lab, list, search.value) });
  fillScenarios(lab, list, "");
  dialog(t("open title"), [
    el("section", {}, el("h3", {}, t("open run")), form("run", run, "go"), el("p", { class: "hint", id: "run-hint" }, t("open run hint")), pick),
    el("section", { class: "grow" }, el("h3", {}, t("open scenario")), search, list),
    el("section", {}, el("h3", {}, t("open trace")), el("button", { class: "dropzone", onclick: () => file.click() }, t("open trace hint")), file),
    el("section", {}, el("h3", {}, t("open check")), form("check", check, "check"), el("p", { class: "hint" }, t("open check hint"))),
    el("section", {}, el("h3", {}, t("open link")), form("link", link, "go"), el("p", { class: "hint" }, t("open link hint"))),
  ], { class: "opening" });
}

/** @param {Lab} lab @param {HTMLElement} list @param {string} wanted */
function fillScenarios(lab, list, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (lab.catalog.scenarios || []).filter((/** @type {any} */ each) => words.every((word) => `${each.name} ${each.title} ${each.chapter} ${each.expected}`.toLowerCase().includes(word)));
  let chapter = "";
  fill(list, ...found.flatMap((/** @type {any} */ each) => {
    const head = each.chapter !== chapter ? [el("li", { class: "chapter" }, (chapter = each.chapter))] : [];
    const violated = each.expected.includes("violated");
    return [...head, el("li", {}, el("button", { onclick: () => lab.open({ scenario: each.name }) },
      el("span", { class: `dot ${violated ? "violated" : "holds"}` }), el("span", { class: "text" }, el("b", {}, each.name), ` ${each.title}`)))];
  }));
}

/** @param {Lab} lab @param {File} file */
async function readFile(lab, file) {
  if (file.size > MOST_BYTES) return lab.notice(`${file.name}: > ${MOST_BYTES / 1e6} MB`, "error");
  return lab.open({ trace: await file.text(), name: file.name });
}

/** @param {string} path @param {() => void} agreed */
export function trustDialog(path, agreed) {
  const close = dialog(t("trust"), [
    el("p", {}, t("trust text", { path })),
    el("div", { class: "buttons" }, el("button", { class: "primary", autofocus: true, onclick: () => close() }, t("cancel")), el("button", { class: "danger", onclick: () => { close(); agreed(); } }, t("trust yes"))),
  ], { class: "narrow" });
}

/** Files may be dropped anywhere. @param {Lab} lab */
export function bindDrop(lab) {
  const stop = (/** @type {Event} */ event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", event.type === "dragover");
  };
  for (const kind of ["dragover", "dragleave"]) document.addEventListener(kind, stop);
  document.addEventListener("drop", (event) => {
    stop(event);
    const file = event.dataTransfer?.files[0];
    if (file) readFile(lab, file);
  });
  byId("empty").hidden = isOpen();
}
