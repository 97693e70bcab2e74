// Keys and caret of the editor of equations, whose component has the class equations-text.
// model.content: { line, column, number }: where to put the caret; without line and column, scroll to the beginning.

export function render({ model }) {
  let area = null;
  const find = () => {
    if (area?.isConnected) return area;
    for (const node of everyElement()) {
      if (node.tagName != 'TEXTAREA' || node.ariaHidden) continue;    // a hidden one measures the height
      if (node.getRootNode().host?.classList.contains('equations-text')) return area = node;
    }
    return null;
  };
  const typed = (event) => event.composedPath()[0] === find();
  const keydown = (event) => {
    if (event.key != 'Enter' || !(event.ctrlKey || event.metaKey) || event.isComposing || !typed(event)) return;
    event.preventDefault();
    event.stopPropagation();
    model.send_msg({ text: area.value });
  };
  const focusin = (event) => {                // formulas are no prose
    if (typed(event)) Object.assign(area, { spellcheck: false, autocapitalize: 'off', autocomplete: 'off' });
  };
  const place = () => {
    const node = find(), { line, column } = model.content;
    if (!node) return;
    if (!line) {
      setTimeout(() => node.scrollTo(0, 0));  // after the text has been replaced
      return;
    }
    const at = node.value.split('\n').slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
    node.focus();
    node.setSelectionRange(at, Math.min(at + 1, node.value.length));
  };
  const listeners = { keydown, focusin };
  for (const [name, listener] of Object.entries(listeners)) document.addEventListener(name, listener, true);
  model.on('content', place);
  model.on('remove', () => {
    for (const [name, listener] of Object.entries(listeners)) document.removeEventListener(name, listener, true);
  });
  const root = document.createElement('span');
  root.hidden = true;
  return root;
}
