// @ts-check
// The bar over the diagram: processes, names, variables, and how the picture is drawn.

import { el, fill, icon } from "./dom.js";
import { colourOf } from "./theme.js";
import { t } from "./texts.js";

/** @type {string} which drop-down is open, kept over redrawing */
let opened = "";

/** @param {import("./main.js").Lab} lab @param {HTMLElement} box */
export function drawFilters(lab, box) {
  const { branch } = lab;
  if (!branch) return fill(box);
  const { names, parts } = branch.vocabulary();
  const processes = branch.opened.processes;
  /** @param {string} name @param {string} label @param {number} active @param {any[]} children */
  const drop = (name, label, active, children) => {
    // The event "toggle" comes later than the click, and the bar may be drawn anew in between.
    const made = el("details", { class: "drop", open: opened === name }, el("summary", { onclick: () => { opened = made.open ? "" : name; } }, label, active ? el("span", { class: "badge" }, String(active)) : null, icon("down")), el("div", { class: "checks" }, ...children));
    return made;
  };
  /** @param {string} label @param {boolean} checked @param {(on: boolean) => void} act @param {string} [colour] */
  const check = (label, checked, act, colour) => {
    const swatch = colour ? el("span", { class: "swatch" }) : null;
    if (swatch) swatch.style.background = colour;
    return el("label", {}, el("input", { type: "checkbox", checked, onchange: (/** @type {any} */ event) => act(event.target.checked) }), swatch, ` ${label}`);
  };
  /** @param {Set<any>} set @param {any} value @param {boolean} on */
  const hide = (set, value, on) => {
    if (on) set.delete(value);
    else set.add(value);
    lab.refilter();
  };
  /** @param {string} name @param {boolean} pressed @param {() => void} act */
  const toggle = (name, pressed, act) => el("button", { class: "toggle", "aria-pressed": pressed, onclick: act }, t(name));
  /** @param {string} image @param {string} label @param {() => void} act */
  const small = (image, label, act) => el("button", { class: "quiet", "aria-label": label, title: label, onclick: act }, icon(image));
  return fill(box,
    drop("processes", t("filter processes"), lab.hiddenProcesses.size, [
      ...processes.map((/** @type {any} */ each) => check(each.label, !lab.hiddenProcesses.has(each.id), (on) => hide(lab.hiddenProcesses, each.id, on))),
      el("button", { class: "quiet", onclick: () => { lab.hiddenProcesses.clear(); lab.refilter(); } }, t("all"))]),
    names.size ? drop("names", t("filter names"), lab.hiddenNames.size, [
      ...[...names].map(([name, kind]) => check(name, !lab.hiddenNames.has(name), (on) => hide(lab.hiddenNames, name, on), kind === "send" ? colourOf(name) : undefined)),
      el("button", { class: "quiet", onclick: () => { lab.hiddenNames.clear(); lab.refilter(); } }, t("all"))]) : null,
    parts.length > 1 ? drop("parts", t("filter parts"), lab.hiddenParts.size, [
      ...parts.map((/** @type {string} */ part) => check(part || t("top part"), !lab.hiddenParts.has(part), (on) => hide(lab.hiddenParts, part, on))),
      el("button", { class: "quiet", onclick: () => { lab.hiddenParts.clear(); lab.refilter(); } }, t("all"))]) : null,
    branch.opened.variables?.length ? drop("variables", t("variables"), lab.variables.length, branch.opened.variables.slice(0, 200).map((/** @type {string} */ name) =>
      check(name, lab.variables.includes(name), (on) => lab.showVariables(on ? [...lab.variables, name].slice(-4) : lab.variables.filter((each) => each !== name))))) : null,
    toggle("fold", lab.fold, () => { lab.fold = !lab.fold; lab.refilter(); }),
    toggle("scale", lab.scale === "time", () => { lab.scale = lab.scale === "time" ? "even" : "time"; lab.refilter(); lab.diagram.fit(); }),
    toggle("future", lab.diagram.ghosts, () => { lab.diagram.ghosts = !lab.diagram.ghosts; lab.draw("all"); }),
    el("span", { class: "grow" }),
    el("span", { class: "zoom" },
      small("zoomout", "−", () => { lab.diagram.scaleBy(1 / 1.5); lab.draw("diagram"); }),
      small("zoomin", "+", () => { lab.diagram.scaleBy(1.5); lab.draw("diagram"); }),
      small("fit", t("key fit"), () => { lab.diagram.fit(); lab.draw("diagram"); })));
}
