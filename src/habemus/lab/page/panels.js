// @ts-check
// The panels at the side: the selected event, what can happen next, the graph, the branches.

import { el, fill, icon } from "./dom.js";
import { translated } from "./reasons.js";
import { inWords, plainText, t } from "./texts.js";

/** @typedef {import("./main.js").Lab} Lab */

/** @param {Lab} lab @param {HTMLElement} box */
export function drawEvent(lab, box) {
  const { branch } = lab;
  const index = lab.focus;
  if (!branch || index < 0 || index >= branch.length) {
    fill(box, el("p", { class: "hint" }, t("no event")));
    return;
  }
  const line = branch.lines[index];
  const flight = branch.flightOf[index] >= 0 ? branch.flights[branch.flightOf[index]] : null;
  const words = inWords(line, (process) => branch.label(process), flight !== null && flight.lost && !flight.swallowed);
  const count = branch.repeats.get(index);
  const details = lab.details && lab.details.event === index ? lab.details : null;
  fill(box,
    el("div", { class: "event-head" },
      el("p", { class: "event-title" }, el("b", {}, branch.label(line.p)), ` ${words}`),
      el("p", { class: "event-sub" }, `#${index + 1} · ${branch.moment(line.t)}`, line.part ? ` · ${line.part}` : "", count ? ` · ${t("repeats", { count })}` : ""),
      flight && flight.sent >= 0 ? el("p", { class: "event-sub" }, flightWords(branch, flight)) : null,
      el("div", { class: "buttons" },
        el("button", { onclick: () => lab.toggleCone(), "aria-pressed": lab.cone !== null }, icon("eye"), t("causes")),
        el("button", { onclick: () => lab.menuOfEvent(index) }, icon("fork"), t("fork")))),
    lab.cone ? el("p", { class: "hint" }, t("cone", { past: lab.cone.past.size, future: lab.cone.future.size })) : null,
    line.v && Object.keys(line.v).length ? section(t("fields"), pairs(line.v)) : null,
    details?.state ? stateSection(lab, details.state) : null,
    details?.state?.effects?.length ? section(t("effects"), el("ul", { class: "effects" }, ...details.state.effects.map((/** @type {string} */ each) => el("li", {}, translated(each))))) : null,
    details?.lines ? linesSection(details.lines) : null,
    details?.problem ? el("p", { class: "hint" }, details.problem) : null);
}

/** @param {import("./model.js").Branch} branch @param {import("./model.js").Flight} flight */
function flightWords(branch, flight) {
  const parts = [t("sent", { time: branch.moment(branch.lines[flight.sent].t) })];
  if (flight.lost) parts.push(t("lost line"));
  else if (flight.ended >= 0) parts.push(t("arrives", { time: branch.moment(branch.lines[flight.ended].t) }));
  else parts.push(t("under way"));
  return parts.join(", ");
}

/** @param {string} title @param {...any} children */
export const section = (title, ...children) => el("section", {}, el("h3", {}, title), ...children);

/** @param {Record<string, any>} values */
function pairs(values) {
  return el("dl", { class: "pairs" }, ...Object.entries(values).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, plainText(value))]));
}

/** @param {Lab} lab @param {any} state */
function stateSection(lab, state) {
  const shown = lab.process >= 0 && lab.process !== state.process ? lab.process : state.process;
  const before = state.before[String(shown)] || {};
  const after = state.after[String(shown)] || {};
  const names = Object.keys(after);
  const changed = names.filter((name) => before[name] !== after[name]);
  const rest = names.filter((name) => before[name] === after[name]);
  const choose = el("select", { "aria-label": t("process"), onchange: (/** @type {any} */ event) => lab.chooseProcess(Number(event.target.value)) },
    ...lab.branch.processes.map((/** @type {any} */ each) => el("option", { value: String(each.id), selected: each.id === shown }, each.label)));
  return el("section", { class: "state" }, el("h3", {}, t("state of", { label: "" }), choose),
    el("table", {},
      el("thead", {}, el("tr", {}, ...["variable", "before", "after"].map((name) => el("th", { scope: "col" }, t(name))))),
      el("tbody", {},
        ...changed.map((name) => el("tr", { class: "changed" }, el("th", { scope: "row" }, name), el("td", { class: "was" }, before[name]), el("td", { class: "is" }, after[name]))),
        ...rest.map((name) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "same", colSpan: 2 }, after[name]))))));
}

/** @param {any} reply */
function linesSection(reply) {
  const blocks = reply.blocks?.length ? reply.blocks : reply.source?.length ? [reply] : [];
  if (!blocks.length) return section(t("source"), el("p", { class: "hint" }, t("no lines")));
  return section(t("source"), ...blocks.map((/** @type {any} */ block) => {
    const executed = new Set(block.executed);
    const file = String(block.file).split("/").pop();
    return el("figure", { class: "code" },
      el("figcaption", {}, `${file}:${block.first} · ${block.handler}`),
      el("pre", { tabIndex: 0 }, ...block.source.map((/** @type {string} */ text, /** @type {number} */ at) =>
        el("span", { class: executed.has(block.first + at) ? "ran" : "" }, el("i", {}, String(block.first + at).padStart(4)), ` ${text}\n`))));
  }));
}

const ICONS = { message: "message", timer: "timer", request: "request", fault: "fault" };

/** @param {Lab} lab @param {HTMLElement} box */
export function drawPending(lab, box) {
  const { branch, pending } = lab;
  if (!branch) return fill(box);
  if (!branch.playable) return fill(box, el("p", { class: "hint" }, t("not playable")));
  if (!pending) return fill(box, el("p", { class: "hint" }, t("loading")));
  if (!pending.length) return fill(box, el("p", { class: "hint" }, t("no pending")));
  return fill(box,
    el("p", { class: "hint" }, t("pending intro")),
    el("ol", { class: "pending" }, ...pending.map((each, index) => choiceItem(lab, each, index))));
}

/** @param {Lab} lab @param {any} each @param {number} index */
function choiceItem(lab, each, index) {
  const { branch } = lab;
  const who = each.from !== null && each.from !== undefined && each.kind === "message" ? `${branch.label(each.from)} → ${branch.label(each.process)}` : branch.label(each.process);
  const flight = each.kind === "message" ? lab.flightOf(each) : -1;
  return el("li", {},
    el("button", {
      class: `choice ${each.kind}${each.next ? " natural" : ""}`, disabled: !each.choice, title: each.why || each.choice || "",
      onclick: () => lab.choose(each),
      oncontextmenu: (/** @type {MouseEvent} */ event) => { event.preventDefault(); if (flight >= 0) lab.menuOfFlight(flight, event.clientX, event.clientY); },
    },
      icon(/** @type {any} */ (ICONS)[each.kind] || "step"),
      el("span", { class: "hidden" }, t(`kind ${each.kind}`)),
      el("span", { class: "text" }, el("b", {}, who), ` ${each.kind === "timer" ? `${t("kind timer")} ` : ""}${each.text}`),
      each.next ? el("span", { class: "tag" }, t("natural")) : null,
      each.time !== undefined && each.time !== null ? el("span", { class: "when" }, branch.moment(each.time)) : null,
      index < 9 ? el("kbd", {}, String(index + 1)) : null),
    flight >= 0 ? el("button", { class: "quiet", "aria-label": `${t("faults")}: ${each.text}`, onclick: (/** @type {any} */ event) => { const at = event.currentTarget.getBoundingClientRect(); lab.menuOfFlight(flight, at.left, at.bottom); } }, icon("menu")) : null);
}

/** @param {Lab} lab @param {HTMLElement} box */
export function drawTree(lab, box) {
  /** @type {Map<number | null, any[]>} */
  const children = new Map();
  for (const each of lab.tree) children.set(each.parent ?? null, [...(children.get(each.parent ?? null) || []), each]);
  /** @param {any} each @param {number} level @returns {any} */
  const item = (each, level) => {
    const violated = Object.entries(each.verdicts || {}).filter(([, verdict]) => verdict === "violated").map(([name]) => name);
    const what = each.interventions?.length ? each.interventions[each.interventions.length - 1] : each.title || t("root");
    const below = children.get(each.branch) || [];
    return el("li", { role: "none" },
      el("button", {
        role: "treeitem", class: "branch", "aria-level": level, "aria-selected": each.branch === lab.branch?.id, "aria-expanded": below.length ? true : undefined,
        onclick: () => lab.switchTo(each.branch),
      }, el("span", { class: `dot ${violated.length ? "violated" : "holds"}`, title: violated.join(", ") }),
        el("span", { class: "text" }, what),
        el("span", { class: "when" }, violated.length ? violated.join(", ") : each.at !== null && each.at !== undefined ? `#${each.at + 1}` : "")),
      below.length ? el("ul", { role: "group" }, ...below.map((one) => item(one, level + 1))) : null);
  };
  const roots = children.get(null) || [];
  fill(box, roots.length ? el("ul", { class: "tree", role: "tree", "aria-label": t("tree") }, ...roots.map((each) => item(each, 1))) : null,
    lab.branch?.command ? section(t("x command"), el("pre", { class: "command", tabIndex: 0 }, lab.branch.command)) : null);
}

/** @param {Lab} lab @param {HTMLElement} list @param {HTMLElement} costs */
export function drawLamps(lab, list, costs) {
  const { branch } = lab;
  if (!branch) return;
  fill(list, ...branch.lamps.map((/** @type {any} */ lamp) => {
    const state = lab.lampState(lamp);
    const card = cardVerdict(lab, lamp);
    return el("li", {}, el("button", { class: `lamp ${state}${lamp.claimed ? "" : " unclaimed"}`, onclick: (/** @type {any} */ event) => lab.showLamp(lamp, event.currentTarget), title: translated(lamp.why) },
      el("span", { class: `dot ${state}`, "aria-hidden": true }), el("b", {}, lamp.property), el("span", { class: "word" }, t(state)),
      card ? el("span", { class: `card ${card}`, title: `${t("lamp card")}: ${lamp.card || t(card)}` }, card === "holds" ? "∀" : card === "violated" ? "∃" : "?") : null));
  }));
  fill(costs, ...branch.costs.filter((/** @type {any} */ each) => each.expected !== null && each.expected !== undefined || COSTS.includes(each.name)).map((/** @type {any} */ each) =>
    el("div", {}, el("dt", {}, each.name.replaceAll("_", " ")), el("dd", {}, plainText(each.measured), each.expected !== null && each.expected !== undefined ? el("span", { class: "formula", title: `${t("formula")}: ${each.formula || ""}` }, ` ${t("formula")} ${plainText(each.expected)}`) : null))));
}

/** What a search of all states found without faults: the second level of a lamp. @param {Lab} lab @param {any} lamp */
function cardVerdict(lab, lamp) {
  const cells = (lab.branch.opened.card?.cells || []).filter((/** @type {any} */ each) => each.property === lamp.property && each.faults === "none");
  if (!cells.length) return "";
  return ["violated", "undecided", "holds"].find((verdict) => cells.some((/** @type {any} */ each) => each.verdict === verdict)) || "";
}

const COSTS = ["entries", "messages", "messages_per_entry", "turnaround"];
