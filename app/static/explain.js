// The tip of words that explain themselves (app/explain.py): one for the page, beside the word that is pointed at or has
// the focus. The text around such a word is written anew every second; then its successor takes over the focus, before a
// key that is pressed meanwhile is heard. Escape takes the tip away, and nothing else: the focus stays, and nobody else
// hears of that key.

const GAP = 8, OFTEN = 200;                             // px around the tip; ms between looks whether its word is there

// Mark words of the text below `root` that explain themselves, each where it first stands: {word: explanation}. seen:
// those that stand before, and is added to.
export function markWords(root, words, seen = new Set()) {
  const known = Object.keys(words).sort((one, other) => other.length - one.length);
  const any = known.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  const pattern = new RegExp(`(?<![\\p{L}\\d_/])(?:${any})(?![\\p{L}\\d_/])`, 'gu');
  for (const node of root.querySelectorAll('[data-term]')) seen.add(node.dataset.term);
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest('[data-term]')) texts.push(walker.currentNode);
  for (const text of texts) {
    for (const { 0: word, index } of [...text.data.matchAll(pattern)].reverse()) {  // the last first: places stay right
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
  let word = null, root = null, timer = null;           // which word, where, and what looks after it
  let focusing = false;                                 // whether it is told as it has the focus, not the pointer
  let dismissed = false;                                // by Escape, until something else is pointed at or focused

  const term = (event) => event.composedPath().find((node) => node.dataset?.term);
  const named = (where, name) => where.querySelector(`[data-term="${CSS.escape(name)}"]`);
  const active = () => {                                // what has the focus, in whichever shadow tree
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
  // Not at `pointerover`, which says where the pointer comes from: the document is told of none within one shadow tree.
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
    const element = term(event);                        // written anew, it is told while it is still connected
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
      event.stopImmediatePropagation();                 // a card or dialog around the word stays
    }
    if (event.key != 'Tab') return;
    hide();
    setTimeout(showFocused);                            // the document is not told of this either: see `point`
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
