// @ts-check
// Interventions in the notation of `--then`, and the menus that make them.

import { el } from "./dom.js";
import { dialog } from "./overlay.js";
import { moment, t, whatOf } from "./texts.js";

/** @typedef {import("./main.js").Lab} Lab */

/** Texts of interventions; the session reads them. */
export const FAULTS = {
  crash: (/** @type {any} */ p) => `${p} crashes`,
  recover: (/** @type {any} */ p) => `${p} recovers`,
  amnesia: (/** @type {any} */ p) => `${p} recovers with amnesia`,
  pause: (/** @type {any} */ p) => `${p} pauses`,
  resume: (/** @type {any} */ p) => `${p} resumes`,
  cut: (/** @type {any} */ a, /** @type {any} */ b) => `cut ${a}-${b}`,
  oneWay: (/** @type {any} */ a, /** @type {any} */ b) => `cut ${a}>${b}`,
  groups: (/** @type {any[]} */ one, /** @type {any[]} */ other) => `cut ${one.join(",")}|${other.join(",")}`,
  heal: () => "heal all",
};

/** @param {Lab} lab @param {number} process */
export function faultItems(lab, process) {
  const { branch } = lab;
  const now = branch.standing(lab.cursor).get(process) || new Set();
  const others = branch.opened.processes.filter((/** @type {any} */ each) => each.id !== process);
  const down = now.has("down");
  const paused = now.has("paused");
  const label = branch.label(process);
  /** @type {import("./overlay.js").Item[]} */
  const items = [];
  /** @param {string} text @param {string} what @param {string} [key] @param {boolean} [danger] */
  const add = (text, what, key = "", danger = false) => items.push({ label: text, key, danger, act: () => lab.intervene(what) });
  if (down) {
    add(t("recover"), FAULTS.recover(process), "r");
    add(t("amnesia"), FAULTS.amnesia(process), "n");
  } else {
    add(t("crash"), FAULTS.crash(process), "x", true);
    if (paused) add(t("resume"), FAULTS.resume(process), "r");
    else add(t("pause process"), FAULTS.pause(process), "p");
  }
  items.push("-");
  if (others.length) add(t("isolate"), FAULTS.groups([process], others.map((/** @type {any} */ each) => each.id)), "k");
  for (const other of others.slice(0, 8)) add(t("cut from", { label: other.label }), FAULTS.cut(process, other.id));
  for (const other of others.slice(0, 4)) {
    add(t("cut to", { from: label, to: other.label }), FAULTS.oneWay(process, other.id));
    add(t("cut to", { from: other.label, to: label }), FAULTS.oneWay(other.id, process));
  }
  if (others.length > 1) items.push({ label: t("partition"), act: () => partitionDialog(lab) });
  if (branch.cutAt(lab.cursor).size) add(t("heal all"), FAULTS.heal(), "h");
  items.push("-", { label: t("luck"), key: "l", act: () => lab.luck() });
  items.push({ label: t("only process"), act: () => { lab.hiddenProcesses = new Set(others.map((/** @type {any} */ each) => each.id)); lab.refilter(); } });
  items.push({ label: t("hide process"), act: () => { lab.hiddenProcesses.add(process); lab.refilter(); } });
  return items;
}

/** @param {Lab} lab */
export function partitionDialog(lab) {
  const all = lab.branch.opened.processes;
  const boxes = all.map((/** @type {any} */ each, /** @type {number} */ index) => ({ id: each.id, box: el("input", { type: "checkbox", checked: index < all.length / 2 - 0.5 }), label: each.label }));
  const close = dialog(t("partition title"), [
    el("p", { class: "hint" }, t("partition hint")),
    el("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const one = boxes.filter((/** @type {any} */ each) => each.box.checked).map((/** @type {any} */ each) => each.id);
      const other = boxes.filter((/** @type {any} */ each) => !each.box.checked).map((/** @type {any} */ each) => each.id);
      if (!one.length || !other.length) return;
      close();
      lab.intervene(FAULTS.groups(one, other));
    } }, el("div", { class: "checks" }, ...boxes.map((/** @type {any} */ each) => el("label", {}, each.box, ` ${each.label}`))), el("button", { class: "primary", type: "submit" }, t("apply"))),
  ]);
}

/** The notation of a message that is under way. @param {Lab} lab @param {any} flight */
function named(lab, flight) {
  return lab.branch.notations?.[flight.sent] || whatOf(lab.branch.lines[flight.sent]);
}

/** @param {Lab} lab @param {number} index */
export function flightItems(lab, index) {
  const { branch } = lab;
  const flight = branch.flights[index];
  const { from, to } = flight;
  // Where the cursor is not between sending and end, the fork is right after the sending.
  const isUnderWay = flight.sent >= 0 && flight.sent <= lab.cursor && (flight.ended < 0 || flight.ended > lab.cursor);
  const at = isUnderWay ? lab.cursor : branch.endOfStep(Math.max(flight.sent, 0));
  const what = named(lab, flight);
  /** @type {import("./overlay.js").Item[]} */
  const items = [
    { label: t("deliver"), act: () => lab.intervene(`${to} receives ${what} from ${from}`, at) },
    { label: t("drop"), danger: true, act: () => lab.intervene(`${what} from ${from} to ${to} is lost`, at) },
    { label: t("duplicate"), act: () => lab.intervene(`${what} from ${from} to ${to} is duplicated`, at) },
    { label: t("delay"), act: () => delayDialog(lab, `${what} from ${from} to ${to}`, at) },
    "-",
    { label: `${t("go here")}: ${moment(branch.lines[Math.max(flight.sent, 0)].t)}`, act: () => lab.go(branch.endOfStep(Math.max(flight.sent, 0))) },
  ];
  return items;
}

/** @param {Lab} lab @param {string} message @param {number} at */
function delayDialog(lab, message, at) {
  const by = el("input", { type: "text", value: "5ms", "aria-label": t("delay by"), autofocus: true });
  const close = dialog(t("delay"), [el("form", { class: "line", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    close();
    lab.intervene(`${message} is delayed by ${by.value.trim()}`, at);
  } }, el("label", {}, `${t("delay by")} `, by), el("button", { class: "primary", type: "submit" }, t("apply")))]);
}
