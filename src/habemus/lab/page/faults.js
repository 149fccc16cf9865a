// @ts-check
// Interventions in the notation of `--then`, and the menus that make them.

import { el } from "./dom.js";
import { dialog } from "./overlay.js";
import { plainText, t } from "./texts.js";

/** @typedef {import("./main.js").Lab} Lab */

/** Texts of interventions; the session reads them. */
export const FAULTS = {
  crash: (/** @type {any} */ p) => `${p} crashes`,
  recover: (/** @type {any} */ p) => `${p} recovers`,
  amnesia: (/** @type {any} */ p) => `${p} forgets`,
  pause: (/** @type {any} */ p, span = "20ms") => `${p} pauses for ${span}`,
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
    if (!now.has("paused")) items.push({ label: t("pause process"), key: "p", act: () => spanDialog(lab, t("pause process"), (span) => lab.intervene(FAULTS.pause(process, span)), "20ms") });
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

/** A value as interventions write it. @param {any} plain @returns {string} */
function written(plain) {
  if (plain !== null && typeof plain === "object" && !Array.isArray(plain)) {
    const [name, ...rest] = Object.keys(plain);
    if (name !== undefined && !rest.length && typeof plain[name] === "object") return valueOf(name, plain[name]);
  }
  return Array.isArray(plain) ? `[${plain.map(written).join(", ")}]` : plainText(plain);
}

/** @param {string} name @param {Record<string, any>} fields */
const valueOf = (name, fields) => (Object.keys(fields).length ? `${name}(${Object.values(fields).map(written).join(", ")})` : name);

/**
 * The notation of a message that is under way: its value, and what tells it from equal ones.
 * @param {Lab} lab @param {import("./model.js").Flight} flight @param {number} at @returns {[string, string]}
 */
function named(lab, flight, at) {
  const { branch } = lab;
  /** @param {import("./model.js").Flight} each */
  const key = (each) => {
    const line = branch.lines[each.sent];
    return `${valueOf(line.name || "", line.v || {})} ${line.part || ""} ${each.from} ${each.to}`;
  };
  const line = branch.lines[flight.sent];
  const equal = branch.underWay(at).filter((/** @type {any} */ each) => key(each) === key(flight));
  equal.sort((/** @type {any} */ a, /** @type {any} */ b) => (a.ended < 0 ? Infinity : a.ended) - (b.ended < 0 ? Infinity : b.ended));
  const ordinal = equal.indexOf(flight) + 1;
  return [valueOf(line.name || "", line.v || {}), (line.part ? ` at ${line.part}` : "") + (ordinal > 1 ? ` #${ordinal}` : "")];
}

/** The intervention that delivers a message. @param {Lab} lab @param {import("./model.js").Flight} flight @param {number} at */
export function deliveryOf(lab, flight, at) {
  const [what, which] = named(lab, flight, at);
  return `${flight.to} receives ${what} from ${flight.from}${which}`;
}

/** @param {Lab} lab @param {number} index */
export function flightItems(lab, index) {
  const { branch } = lab;
  const flight = branch.flights[index];
  const { from, to } = flight;
  // Where the cursor is not between sending and end, the fork is right after the sending.
  const isUnderWay = flight.sent >= 0 && flight.sent <= lab.cursor && (flight.ended < 0 || flight.ended > lab.cursor);
  const at = isUnderWay ? lab.cursor : branch.endOfStep(Math.max(flight.sent, 0));
  if (flight.sent < 0) return [];
  const [what, which] = named(lab, flight, at);
  /** @type {import("./overlay.js").Item[]} */
  const items = [
    { label: t("deliver"), act: () => (at === lab.cursor && flight.ended === branch.endOfStep(at) + 1 && !flight.lost ? lab.stepHere() : lab.intervene(deliveryOf(lab, flight, at), at)) },
    { label: t("drop"), danger: true, act: () => lab.intervene(`${what} from ${from} to ${to} is lost${which}`, at) },
    { label: t("duplicate"), act: () => lab.intervene(`${what} from ${from} to ${to} is duplicated${which}`, at) },
    { label: t("delay"), act: () => spanDialog(lab, t("delay"), (span) => lab.intervene(`${what} from ${from} to ${to} is delayed by ${span}${which}`, at), "5ms") },
    "-",
    { label: `${t("go here")}: ${branch.moment(branch.lines[Math.max(flight.sent, 0)].t)}`, act: () => lab.go(branch.endOfStep(Math.max(flight.sent, 0))) },
  ];
  return items;
}

/** Ask for a time. @param {Lab} _lab @param {string} title @param {(span: string) => void} act @param {string} usual */
export function spanDialog(_lab, title, act, usual) {
  const by = el("input", { type: "text", value: usual, "aria-label": t("delay by"), autofocus: true });
  const close = dialog(title, [el("form", { class: "line", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    close();
    act(by.value.trim());
  } }, el("label", {}, `${t("delay by")} `, by), el("button", { class: "primary", type: "submit" }, t("apply")))], { class: "narrow" });
}
