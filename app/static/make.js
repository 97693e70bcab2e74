// An element with its properties, its label, what a click on it does, and its children: before a card's own script.
function make(tag, options = {}, ...children) {
  const { label, click, ...rest } = options, node = Object.assign(document.createElement(tag), rest);
  if (label) node.setAttribute('aria-label', label);
  if (click) node.addEventListener('click', click);
  node.append(...children);
  return node;
}
