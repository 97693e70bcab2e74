// The tip of words that explain themselves (app/explain.py): one for the page, beside the word that is pointed at or has
// the focus. The text around such a word is written anew every second; then its successor takes over the focus, before a
// key that is pressed meanwhile is heard.

const GAP = 8, OFTEN = 200;                             // px around the tip; ms between looks whether its word is there

export function explainWords() {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.setAttribute('role', 'tooltip');
  tip.hidden = true;
  let word = null, root = null, timer = null;           // which word, where, and what looks after it

  const term = (event) => event.composedPath().find((node) => node.dataset?.term);
  const place = (element) => {
    const box = element.getBoundingClientRect();
    tip.hidden = false;
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
  const look = (focused) => {
    const element = root?.querySelector(`[data-term="${CSS.escape(word)}"]`);
    if (!element?.isConnected || !element.checkVisibility()) return hide();
    if (focused && root.activeElement !== element) element.focus({ preventScroll: true });
    place(element);
  };
  const show = (element, focused) => {
    clearInterval(timer);
    word = element.dataset.term;
    root = element.getRootNode();
    tip.textContent = element.getAttribute('aria-label');
    place(element);
    timer = setInterval(() => look(focused), OFTEN);
  };
  const over = (event) => {
    const element = term(event);
    if (element) show(element, false);
    else if (word && !term({ composedPath: () => [document.activeElement?.shadowRoot?.activeElement ?? document.body] })) hide();
  };
  const focus = (event) => {
    const element = term(event);
    if (element) show(element, true);
  };
  const blur = (event) => {
    const element = term(event);                        // written anew, it is told while it is still connected
    if (element) queueMicrotask(() => (element.isConnected ? hide() : look(true)));
  };
  const key = (event) => {
    if (event.key == 'Escape' || event.key == 'Tab') hide();
  };
  const listeners = { pointerover: over, focusin: focus, focusout: blur, keydown: key };
  for (const [name, listener] of Object.entries(listeners)) document.addEventListener(name, listener, true);
  document.body.append(tip);
  return () => {
    for (const [name, listener] of Object.entries(listeners)) document.removeEventListener(name, listener, true);
    clearInterval(timer);
    tip.remove();
  };
}
