// Functions shared by the cards; prepended to each card's script.

// Yield every element below `root` in document order, including elements in shadow trees.
function* everyElement(root = document) {
  for (const node of root.querySelectorAll('*')) {
    yield node;
    if (node.shadowRoot) yield* everyElement(node.shadowRoot);
  }
}

// Return the focused element, also inside shadow trees.
function focused() {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node;
}

// Return a new element with properties, an aria-label, a click handler and children.
function make(tag, options = {}, ...children) {
  const { label, click, ...rest } = options, node = Object.assign(document.createElement(tag), rest);
  if (label) node.setAttribute('aria-label', label);
  if (click) node.addEventListener('click', click);
  node.append(...children);
  return node;
}

// Return a QR code of app/page/qr_code.py as SVG with an aria-label: dark on white in both colour schemes, as phones need it.
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

// Replace the children of a section and keep the focus: on the control with the same label, or on the one at the same
// index if the number of controls is unchanged, otherwise on the section.
function renew(section, ...nodes) {
  const words = (node) => node.getAttribute('aria-label') || node.textContent;
  const had = section.getRootNode().activeElement, before = pressable(section), place = before.indexOf(had);
  section.replaceChildren(...nodes);
  if (place < 0) return;
  const now = pressable(section), same = now.length == before.length ? now[place] : null;
  (now.find((node) => words(node) == words(had)) ?? same ?? section).focus({ preventScroll: true });
}

// Focus handling of an overlay: it gets the focus when it opens, calls `close` at Escape, and restores the focus later.
// Return [show(open), remove()]: call show when the overlay opens or closes, and remove when it is removed.
// within: whether only Escape pressed inside the overlay closes it.
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
    if (now && section.contains(before)) before = null;     // the overlay already had the focus
    else (now ? section : before)?.focus({ preventScroll: true });
  };
  return [show, () => document.removeEventListener('keydown', escape)];
}
