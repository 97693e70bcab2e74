// Before a card's own script: what several of them need.

// Every element below `root`, those in shadow trees included, each before what is in it.
function* everyElement(root = document) {
  for (const node of root.querySelectorAll('*')) {
    yield node;
    if (node.shadowRoot) yield* everyElement(node.shadowRoot);
  }
}

// What has the focus, in whichever shadow tree.
function focused() {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node;
}

// An element with its properties, its label, what a click on it does, and its children.
function make(tag, options = {}, ...children) {
  const { label, click, ...rest } = options, node = Object.assign(document.createElement(tag), rest);
  if (label) node.setAttribute('aria-label', label);
  if (click) node.addEventListener('click', click);
  node.append(...children);
  return node;
}

// A QR code of app/qr_code.py, with words for who cannot see it: dark on white in both schemes, as phones read it.
function qrCode({ side, path }, words) {
  const SVG = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(SVG, 'svg'), dark = document.createElementNS(SVG, 'path');
  svg.setAttribute('viewBox', `0 0 ${side} ${side}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', words);
  svg.setAttribute('shape-rendering', 'crispEdges');
  dark.setAttribute('d', path);
  svg.append(dark);
  return svg;
}

const pressable = (section) => [...section.querySelectorAll('button, a, select, input')].filter((node) => !node.disabled);

// Replace all that a section has. What had the focus gives it to its successor: what has the same words, or, where there
// are as many buttons, the same place; else the section takes it.
function renew(section, ...nodes) {
  const words = (node) => node.getAttribute('aria-label') || node.textContent;
  const had = section.getRootNode().activeElement, before = pressable(section), place = before.indexOf(had);
  section.replaceChildren(...nodes);
  if (place < 0) return;
  const now = pressable(section), same = now.length == before.length ? now[place] : null;
  (now.find((node) => words(node) == words(had)) ?? same ?? section).focus({ preventScroll: true });
}

// What lies over the page takes the focus as it appears, goes at Escape, and gives the focus back to who had it.
// Returns a function to be told whether it is shown, and one to be called when it is removed.
// within: whether Escape must be pressed within it.
function overPage(section, close, within = false) {
  let before = null, open = false;
  const escape = (event) => {
    const elsewhere = (node) => node !== section && ['dialog', 'listbox', 'menu'].includes(node.getAttribute?.('role'));
    if (within && !event.composedPath().includes(section)) return;
    if (!open || event.key != 'Escape' || event.defaultPrevented || event.composedPath().some(elsewhere)) return;
    event.preventDefault();
    close();
  };
  section.tabIndex = -1;
  document.addEventListener('keydown', escape);
  const show = (now) => {
    if (now == open) return;
    open = now;
    if (now) before = focused();
    if (now && section.contains(before)) before = null;     // somebody was quicker
    else (now ? section : before)?.focus({ preventScroll: true });
  };
  return [show, () => document.removeEventListener('keydown', escape)];
}
