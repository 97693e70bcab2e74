// The tooltip of explained words (app/page/explain.py): one element for the page, next to the word that has the pointer or
// the focus. The text around such a word is replaced every second; the focus then moves to the same word in the new
// text before the next key event. Escape hides only the tooltip: the focus stays, and the event does not propagate.

const GAP = 8, OFTEN = 200;                             // px around the tooltip; ms between checks of its word

// Mark the first occurrence of each explained word in the text below `root`. words: {word: explanation}. seen: words
// that were marked before; the function adds the new ones.
export function markWords(root, words, seen = new Set()) {
  const known = Object.keys(words).sort((one, other) => other.length - one.length);
  const any = known.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  const pattern = new RegExp(`(?<![\\p{L}\\d_/])(?:${any})(?![\\p{L}\\d_/])`, 'gu');
  for (const node of root.querySelectorAll('[data-term]')) seen.add(node.dataset.term);
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest('[data-term]')) texts.push(walker.currentNode);
  for (const text of texts) {
    for (const { 0: word, index } of [...text.data.matchAll(pattern)].reverse()) {  // last first, so that indices stay valid
      if (!text.data.slice(0, index).match(pattern)?.includes(word) && !seen.has(word)) {
        const span = Object.assign(document.createElement('span'), { className: 'term', tabIndex: 0, textContent: word });
        span.dataset.term = word;
        span.setAttribute('role', 'note');
        span.setAttribute('aria-label', words[word]);
        text.splitText(index).deleteData(0, word.length);
        text.after(span);
        seen.add(word);
      }
    }
  }
}

export function explainWords() {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.setAttribute('role', 'tooltip');
  tip.hidden = true;
  let word = null, root = null, timer = null;           // the explained word, its root node, the interval of checks
  let focusing = false;                                 // whether the tooltip follows the focus, not the pointer
  let dismissed = false;                                // by Escape, until another word gets the pointer or the focus

  const term = (event) => event.composedPath().find((node) => node.dataset?.term);
  const named = (where, name) => where.querySelector(`[data-term="${CSS.escape(name)}"]`);
  const active = () => {                                // the focused element, also inside shadow trees
    let node = document.activeElement;
    while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
    return node ?? document.body;
  };
  const place = (element) => {
    const box = element.getBoundingClientRect();
    tip.hidden = dismissed;
    const { width, height } = tip.getBoundingClientRect();
    const below = box.bottom + GAP + height < innerHeight;
    tip.style.left = `${Math.max(GAP, Math.min(box.left, innerWidth - width - GAP))}px`;
    tip.style.top = `${below ? box.bottom + GAP : Math.max(GAP, box.top - GAP - height)}px`;
  };
  const hide = () => {
    clearInterval(timer);
    tip.hidden = true;
    word = root = null;
  };
  const look = () => {
    const element = root && named(root, word);
    if (!element?.isConnected || !element.checkVisibility()) return hide();
    if (focusing && !element.contains(active())) return hide();
    place(element);
  };
  const show = (element, focused) => {
    clearInterval(timer);
    if (element.dataset.term != word || element.getRootNode() != root) dismissed = false;
    word = element.dataset.term;
    root = element.getRootNode();
    focusing = focused;
    tip.textContent = element.dataset.about ?? element.getAttribute('aria-label');
    place(element);
    timer = setInterval(look, OFTEN);
  };
  const showFocused = () => {
    const element = active().closest('[data-term]');
    if (element) show(element, true);
    else hide();
  };
  // Not `pointerover`: its relatedTarget keeps the event inside the shadow tree for moves within that tree.
  const point = (event) => {
    const element = term(event);
    if (element && (element.dataset.term != word || element.getRootNode() != root)) show(element, false);
    else if (!element && word && !focusing) showFocused();
  };
  const focus = (event) => {
    const element = term(event);
    if (element) show(element, true);
  };
  const blur = (event) => {
    const element = term(event);                        // in replaced text the event arrives before the node is removed
    if (!element) return;
    const { term: name } = element.dataset, where = element.getRootNode();
    queueMicrotask(() => (element.isConnected ? look() : named(where, name)?.focus({ preventScroll: true })));
  };
  const key = (event) => {
    if (event.key == 'Escape') {
      look();
      if (tip.hidden) return;
      dismissed = tip.hidden = true;
      event.preventDefault();
      event.stopImmediatePropagation();                 // does not close a card or dialog around the word
    }
    if (event.key != 'Tab') return;
    hide();
    setTimeout(showFocused);                            // focus events within one shadow tree are hidden, too: see `point`
  };
  const listeners = { pointermove: point, pointerdown: point, focusin: focus, focusout: blur, keydown: key };
  for (const [name, listener] of Object.entries(listeners)) document.addEventListener(name, listener, true);
  document.body.append(tip);
  return () => {
    for (const [name, listener] of Object.entries(listeners)) document.removeEventListener(name, listener, true);
    clearInterval(timer);
    tip.remove();
  };
}
