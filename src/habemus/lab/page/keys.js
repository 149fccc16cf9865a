// @ts-check
// Keys work wherever the focus is, except in fields of text and open dialogs.

import { byId, el, svg } from "./dom.js";
import { FAULTS } from "./faults.js";
import { openDialog } from "./opening.js";
import { closeTop, dialog, isOpen } from "./overlay.js";
import { t } from "./texts.js";

const LIST = [
  ["Space", "key play"], ["→ ←", "key step"], [". ,", "key event"], ["Home End", "key ends"], ["v", "key violation"],
  ["a d w s", "key pan"], ["0", "key fit"], ["↑ ↓", "key process"], ["m", "key menu"], ["x r n p", "key faults"], ["k h", "key cut"], ["l", "key luck"],
  ["1 … 9", "key next"], ["c", "key causes"], ["o", "key open"], ["e", "key export"], ["[ ]", "key tabs"], ["t", "key table"], ["Esc", "key esc"], ["?", "key help"],
];

/** How the diagram draws things. @type {[string, any[]][]} */
const MARKS = [
  ["mark inside", ["rect", { x: 3, y: 3, width: 28, height: 12, rx: 5, fill: "var(--c-inside)" }]],
  ["mark waiting", ["rect", { x: 3, y: 6, width: 28, height: 6, rx: 3, fill: "none", stroke: "var(--c-waiting)", "stroke-width": 1.5 }]],
  ["mark leader", ["rect", { x: 3, y: 3, width: 28, height: 12, rx: 5, fill: "var(--c-leader)" }]],
  ["mark request", ["path", { d: "M12 4h10l-5 8z", fill: "currentColor" }]],
  ["mark indicate", ["path", { d: "M12 14h10l-5-8z", fill: "currentColor" }]],
  ["mark timer", ["path", { d: "M17 4a5 5 0 1 0 .01 0M17 9V6M17 9l2 1", fill: "none", stroke: "currentColor", "stroke-width": 1.5 }]],
  ["mark message", ["path", { d: "M3 14L28 5m0 0l-7 0m7 0l-5 5", fill: "none", stroke: "var(--m-0)", "stroke-width": 1.6 }]],
  ["mark lost", ["path", { d: "M3 14L20 7M20 3l7 7m0-7l-7 7", fill: "none", stroke: "var(--c-danger)", "stroke-width": 1.8 }]],
  ["mark crash", ["path", { d: "M12 4l10 10m0-10l-10 10", fill: "none", stroke: "var(--c-danger)", "stroke-width": 3 }]],
  ["mark cut", ["rect", { x: 2, y: 1, width: 30, height: 16, fill: "var(--c-cut)", stroke: "var(--c-muted)", "stroke-dasharray": "2 3" }]],
  ["mark card", ["text", { x: 8, y: 14, "font-size": 14, fill: "currentColor" }, "∀ ∃"]],
];

export function showKeys() {
  const marks = el("dl", { class: "marks" }, ...MARKS.flatMap(([text, [tag, attributes, ...inside]]) => [el("dt", {}, svg("svg", { viewBox: "0 0 34 18", "aria-hidden": "true" }, svg(tag, attributes, ...inside))), el("dd", {}, t(text))]));
  dialog(t("keys title"), [el("section", {}, el("h3", {}, t("marks title")), marks), el("h3", {}, t("keys")), el("dl", { class: "keys" }, ...LIST.flatMap(([keys, text]) => [el("dt", {}, ...keys.split(" ").map((each) => (each === "…" ? "…" : el("kbd", {}, each)))), el("dd", {}, t(text))]))], { class: "narrow" });
}

/** @param {import("./main.js").Lab} lab */
export function bindKeys(lab) {
  /** @param {(process: number) => string} what */
  const strike = (what) => {
    if (lab.process >= 0) lab.intervene(what(lab.process));
    else lab.nextProcess(1);
  };
  const pan = () => lab.diagram.extent * 0.2;
  /** @param {() => void} act */
  const view = (act) => () => {
    act();
    lab.draw("diagram");
  };
  /** @type {Record<string, () => void>} */
  const acts = {
    " ": () => lab.play(), ArrowRight: () => lab.step(), ArrowLeft: () => lab.back(), ".": () => lab.event(1), ",": () => lab.event(-1),
    Home: () => lab.first(), End: () => lab.last(), v: () => lab.toViolation(),
    a: view(() => lab.diagram.pan(-pan())), d: view(() => lab.diagram.pan(pan())), w: view(() => lab.diagram.scaleBy(1.3)), s: view(() => lab.diagram.scaleBy(1 / 1.3)),
    "+": view(() => lab.diagram.scaleBy(1.3)), "-": view(() => lab.diagram.scaleBy(1 / 1.3)), 0: view(() => lab.diagram.fit()),
    ArrowDown: () => lab.nextProcess(1), ArrowUp: () => lab.nextProcess(-1), m: () => lab.menuOfSelection(), ContextMenu: () => lab.menuOfSelection(),
    x: () => strike(FAULTS.crash), n: () => strike(FAULTS.amnesia), p: () => strike((process) => FAULTS.pause(process)),
    r: () => strike(FAULTS.recover),
    k: () => strike((process) => FAULTS.groups([process], lab.branch.opened.processes.map((/** @type {any} */ each) => each.id).filter((/** @type {number} */ id) => id !== process))),
    h: () => lab.intervene(FAULTS.heal()), l: () => lab.luck(), c: () => lab.toggleCone(), o: () => openDialog(lab), e: () => lab.export(),
    "[": () => lab.turnTab(-1), "]": () => lab.turnTab(1), "?": () => showKeys(), Escape: () => lab.deselect(),
    t: () => {
      const box = byId("table-box");
      box.open = !box.open;
      if (box.open) requestAnimationFrame(() => lab.table.scroller.focus());
    },
  };
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (isOpen() && event.key === "Escape") closeTop();
    if (isOpen() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input, textarea, select")) return;
    const onButton = target.closest("button, summary, a[href], [role=button]");
    if (onButton && (event.key === " " || event.key === "Enter")) return;
    if (target.closest("#side, #table") && ["ArrowUp", "ArrowDown"].includes(event.key)) return;
    if (/^[1-9]$/.test(event.key)) return deliver(lab, Number(event.key) - 1);
    const act = acts[event.key];
    if (!act || (!lab.branch && !["o", "?"].includes(event.key))) return;
    event.preventDefault();
    act();
  });
}

/** @param {import("./main.js").Lab} lab @param {number} index */
function deliver(lab, index) {
  if (lab.tab !== "pending") return lab.showTab("pending");
  return lab.choose(lab.pending?.[index]);
}
