// @ts-check
// Elements of the page.  Text is always text: nothing here parses HTML.

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * Make an element.  Properties that begin with "on" are listeners, "class" and ARIA names are
 * attributes, others are properties.
 * @param {string} tag @param {Record<string, any>} [given] @param {...any} children
 * @returns {any}
 */
export function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(made.dataset, value);
    else if (name in made && !name.startsWith("aria")) /** @type {any} */ (made)[name] = value;
    else if (value === true) made.setAttribute(name, name.startsWith("aria") ? "true" : "");
    else if (value !== false || name.startsWith("aria")) made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

const NS = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag @param {Record<string, any>} [given] @param {...any} children
 * @returns {any}
 */
export function svg(tag, given = {}, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

/** @type {Record<string, string>} */
const PATHS = {
  first: "M5 5v14M19 5 9 12l10 7z",
  back: "M17 5 7 12l10 7zM5 5",
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  step: "M7 5l10 7-10 7z",
  last: "M19 5v14M5 5l10 7-10 7z",
  fork: "M6 4v16M6 12c6 0 10-1 12-8M18 4h-4M18 4v4",
  share: "M12 15V4M8 8l4-4 4 4M5 13v6h14v-6",
  help: "M9 9a3 3 0 1 1 4 3c-.8.4-1 1-1 2M12 17.5v.1",
  close: "M6 6l12 12M18 6 6 18",
  down: "M6 9l6 6 6-6",
  crash: "M6 6l12 12M18 6 6 18",
  folder: "M4 7h6l2 2h8v10H4z",
  menu: "M5 7h14M5 12h14M5 17h14",
  eye: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6zM12 12v.1",
  message: "M4 6h16v12H4zM4 7l8 6 8-6",
  timer: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  request: "M12 4v14M7 13l5 5 5-5",
  fault: "M13 3 5 14h6l-1 7 8-11h-6z",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  zoomin: "M12 6v12M6 12h12",
  zoomout: "M6 12h12",
};

/** @param {string} name */
export const icon = (name) =>
  svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] || PATHS.menu }));

/** @param {any} box @param {...any} children */
export function fill(box, ...children) {
  box.replaceChildren(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
}

/** Let the user save a text or a blob as a file. @param {string} name @param {Blob} blob */
export function save(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
