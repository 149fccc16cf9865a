// @ts-check
// The graph view: processes as nodes, in step with the diagram.

import { fill, el, svg } from "./dom.js";
import { colourOf } from "./theme.js";
import { t, whatOf } from "./texts.js";

const SIZE = 320;

/** @param {any} graph @returns {Map<number, [number, number]>} */
function places(graph) {
  /** @type {Map<number, [number, number]>} */
  const found = new Map();
  const nodes = graph.nodes || [];
  const middle = SIZE / 2;
  if (graph.kind === "line" && nodes.length > 1) {
    nodes.forEach((/** @type {number} */ id, /** @type {number} */ index) => found.set(id, [30 + (index * (SIZE - 60)) / (nodes.length - 1), middle]));
    return found;
  }
  if (graph.kind === "tree") return treePlaces(graph);
  if (graph.kind === "grid") {
    const side = Math.ceil(Math.sqrt(nodes.length));
    nodes.forEach((/** @type {number} */ id, /** @type {number} */ index) => found.set(id, [36 + ((index % side) * (SIZE - 72)) / Math.max(side - 1, 1), 36 + (Math.floor(index / side) * (SIZE - 72)) / Math.max(side - 1, 1)]));
    return found;
  }
  const centre = graph.kind === "star" ? starCentre(graph) : null;
  const round = nodes.filter((/** @type {number} */ id) => id !== centre);
  if (centre !== null) found.set(centre, [middle, middle]);
  round.forEach((/** @type {number} */ id, /** @type {number} */ index) => {
    const angle = (index / round.length) * 2 * Math.PI - Math.PI / 2;
    found.set(id, [middle + Math.cos(angle) * (middle - 40), middle + Math.sin(angle) * (middle - 40)]);
  });
  if (!["ring", "complete", "voting", "star"].includes(graph.kind)) relax(found, graph.edges);
  return found;
}

/** @param {any} graph */
function starCentre(graph) {
  const degree = new Map();
  for (const [a, b] of graph.edges) for (const each of [a, b]) degree.set(each, (degree.get(each) || 0) + 1);
  return [...degree].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}

/** @param {any} graph */
function treePlaces(graph) {
  /** @type {Map<number, [number, number]>} */
  const found = new Map();
  const seen = new Set();
  /** @type {number[][]} */
  const levels = [];
  let level = [graph.nodes[0]];
  while (level.length) {
    levels.push(level);
    level.forEach((id) => seen.add(id));
    level = level.flatMap((id) => graph.edges.flatMap((/** @type {number[]} */ [a, b]) => (a === id ? [b] : b === id ? [a] : []))).filter((/** @type {number} */ id, /** @type {number} */ index, /** @type {number[]} */ all) => !seen.has(id) && all.indexOf(id) === index);
  }
  levels.forEach((ids, depth) => ids.forEach((id, index) => found.set(id, [((index + 1) * SIZE) / (ids.length + 1), 34 + (depth * (SIZE - 68)) / Math.max(levels.length - 1, 1)])));
  for (const id of graph.nodes) if (!found.has(id)) found.set(id, [SIZE / 2, SIZE - 20]);
  return found;
}

/** Let edges pull and nodes push for a while. @param {Map<number, [number, number]>} found @param {number[][]} edges */
function relax(found, edges) {
  const ids = [...found.keys()];
  for (let round = 0; round < 120; round++) {
    const force = new Map(ids.map((id) => [id, [0, 0]]));
    for (const a of ids) for (const b of ids) {
      if (a === b) continue;
      const [x, y] = /** @type {any} */ (found.get(a)).map((/** @type {number} */ v, /** @type {number} */ i) => v - /** @type {any} */ (found.get(b))[i]);
      const far = Math.max(12, Math.hypot(x, y));
      const of = /** @type {number[]} */ (force.get(a));
      of[0] += (x / far) * (1800 / (far * far)) * 10;
      of[1] += (y / far) * (1800 / (far * far)) * 10;
    }
    for (const [a, b] of edges) {
      const [one, other] = [found.get(a), found.get(b)];
      if (!one || !other) continue;
      const [x, y] = [other[0] - one[0], other[1] - one[1]];
      for (const [id, sign] of [[a, 1], [b, -1]]) {
        const of = /** @type {number[]} */ (force.get(id));
        of[0] += sign * x * 0.02;
        of[1] += sign * y * 0.02;
      }
    }
    for (const id of ids) {
      const of = /** @type {number[]} */ (force.get(id));
      const at = /** @type {[number, number]} */ (found.get(id));
      at[0] = Math.max(28, Math.min(SIZE - 28, at[0] + Math.max(-6, Math.min(6, of[0]))));
      at[1] = Math.max(28, Math.min(SIZE - 28, at[1] + Math.max(-6, Math.min(6, of[1]))));
    }
  }
}

/** @type {{branch: any, places: Map<number, [number, number]>} | null} */
let kept = null;

/** @param {import("./main.js").Lab} lab @param {HTMLElement} box */
export function drawGraph(lab, box) {
  const { branch } = lab;
  const graph = branch?.opened.graph;
  if (!branch || !graph) return fill(box);
  if (!kept || kept.branch !== branch.opened) kept = { branch: branch.opened, places: places(graph) };
  const at = kept.places;
  const standing = branch.standing(lab.cursor);
  const cut = branch.cutAt(lab.cursor);
  const underWay = branch.underWay(lab.cursor).slice(0, 200);
  const line = lab.cursor >= 0 ? branch.lines[lab.cursor] : null;
  const r = (graph.nodes || []).length > 16 ? 10 : 17;
  const edges = graph.edges.length <= 600 ? graph.edges : [];
  const voters = graph.sets?.[String(lab.process)];
  /** @param {number} a @param {number} b */
  const between = (a, b, share = 0) => {
    const [one, other] = [at.get(a) || [0, 0], at.get(b) || [0, 0]];
    return [one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share];
  };
  const picture = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "graph", role: "group", "aria-label": t("graph") },
    ...edges.map((/** @type {number[]} */ [a, b]) => {
      const [x1, y1] = between(a, b);
      const [x2, y2] = between(a, b, 1);
      const both = cut.has(`${a}>${b}`) && cut.has(`${b}>${a}`);
      const one = cut.has(`${a}>${b}`) || cut.has(`${b}>${a}`);
      return svg("line", { x1, y1, x2, y2, class: both ? "edge cut" : one ? "edge half" : "edge" });
    }),
    ...underWay.filter((/** @type {any} */ flight) => flight.from !== flight.to).map((/** @type {any} */ flight) => {
      const name = branch.lines[flight.sent].name || "";
      const share = 0.3 + 0.4 * Math.min(1, (lab.cursor - flight.sent) / Math.max(1, (flight.ended < 0 ? branch.length : flight.ended) - flight.sent));
      const [x, y] = between(flight.from, flight.to, share);
      const [x0, y0] = between(flight.from, flight.to, Math.max(0, share - 0.16));
      return svg("g", { class: "message" }, svg("title", {}, `${branch.label(flight.from)} → ${branch.label(flight.to)}: ${whatOf(branch.lines[flight.sent])}`),
        svg("line", { x1: x0, y1: y0, x2: x, y2: y, stroke: colourOf(name) }), svg("circle", { cx: x, cy: y, r: 5, fill: colourOf(name) }));
    }),
    ...(graph.nodes || []).map((/** @type {number} */ id) => {
      const [x, y] = at.get(id) || [0, 0];
      const now = standing.get(id) || new Set();
      const kinds = ["down", "paused", "inside", "leader", "waiting"].filter((kind) => now.has(kind));
      const words = kinds.map((kind) => t(kind)).join(", ") || t("idle");
      const label = branch.label(id);
      return svg("g", {
        class: `node ${kinds.join(" ")}${line && line.p === id ? " acts" : ""}${lab.process === id ? " chosen" : ""}${voters?.includes(id) ? " voter" : ""}`,
        tabindex: 0, role: "button", "aria-label": `${t("process {label}", { label })}: ${words}`,
        onclick: () => lab.chooseProcess(id),
        onkeydown: (/** @type {KeyboardEvent} */ key) => (key.key === "Enter" || key.key === " ") && (key.preventDefault(), lab.chooseProcess(id)),
        oncontextmenu: (/** @type {MouseEvent} */ event) => { event.preventDefault(); lab.menuOfProcess(id, event.clientX, event.clientY); },
      }, svg("circle", { cx: x, cy: y, r: r + 5, class: "ring" }), svg("circle", { cx: x, cy: y, r, class: "body" }),
        now.has("down") ? svg("path", { d: `M${x - r * 0.6} ${y - r * 0.6}l${r * 1.2} ${r * 1.2}m0 ${-r * 1.2}l${-r * 1.2} ${r * 1.2}`, class: "cross" }) : null,
        svg("text", { x, y: y + 4, "text-anchor": "middle", "aria-hidden": "true" }, label.length > 3 ? "" : label),
        label.length > 3 ? svg("text", { x, y: y + r + 15, "text-anchor": "middle", class: "full", "aria-hidden": "true" }, label.slice(0, 18)) : null);
    }));
  return fill(box, picture,
    el("p", { class: "hint legend" }, ...["inside", "waiting", "leader", "down", "paused"].map((kind) => el("span", { class: `key ${kind}` }, t(kind))), el("span", {}, t("under", { count: underWay.length }))),
    graph.sets && Object.keys(graph.sets).length ? el("section", {}, el("h3", {}, t("voting sets")), el("dl", { class: "pairs" }, ...Object.entries(graph.sets).flatMap(([id, set]) => [el("dt", {}, branch.label(Number(id))), el("dd", {}, /** @type {any} */ (set).map((/** @type {number} */ each) => branch.label(each)).join(", "))]))) : null);
}
