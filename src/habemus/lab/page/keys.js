// @ts-check
// Keys work wherever the focus is, except in fields of text and open dialogs.

import { byId, el } from "./dom.js";
import { FAULTS } from "./faults.js";
import { openDialog } from "./opening.js";
import { closeTop, dialog, isOpen } from "./overlay.js";
import { t } from "./texts.js";

const LIST = [
  ["Space", "key play"], ["→ ←", "key step"], [". ,", "key event"], ["Home End", "key ends"], ["v", "key violation"],
  ["a d w s", "key pan"], ["0", "key fit"], ["↑ ↓", "key process"], ["m", "key menu"], ["x r n p", "key faults"], ["k h", "key cut"], ["l", "key luck"],
  ["1 … 9", "key next"], ["c", "key causes"], ["o", "key open"], ["e", "key export"], ["[ ]", "key tabs"], ["t", "key table"], ["Esc", "key esc"], ["?", "key help"],
];

export function showKeys() {
  dialog(t("keys title"), [el("dl", { class: "keys" }, ...LIST.flatMap(([keys, text]) => [el("dt", {}, ...keys.split(" ").map((each) => (each === "…" ? "…" : el("kbd", {}, each)))), el("dd", {}, t(text))]))], { class: "narrow" });
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
