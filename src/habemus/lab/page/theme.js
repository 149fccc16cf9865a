// @ts-check
// Colours of the canvases, from the variables of lab.css.

const NAMES = ["bg", "panel", "line", "text", "muted", "faint", "accent", "inside", "insideText", "waiting", "leader", "leaderText", "danger", "down", "cut", "halo"];

/** @type {Record<string, string>} */
export const colours = {};
/** @type {string[]} */
export const palette = [];

export const FONT = 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif';
export const MONO = 'ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, "DejaVu Sans Mono", monospace';

export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES) colours[name] = style.getPropertyValue(`--c-${name}`).trim() || "#888";
  palette.length = 0;
  for (let index = 0; index < 8; index++) palette.push(style.getPropertyValue(`--m-${index}`).trim() || "#888");
}

/** @type {Map<string, number>} */
const known = new Map();

/** The colour of a name of messages: in the order in which names are met. @param {string} name */
export function colourOf(name) {
  let index = known.get(name);
  if (index === undefined) known.set(name, (index = known.size));
  return palette[index % palette.length];
}

export const forgetColours = () => known.clear();
