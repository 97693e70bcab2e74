// panel-material-ui has fixed labels for the buttons of the two bars. This script replaces them by the page's labels, in
// the buttons' names and tooltips. The library writes both again when a bar opens or closes.
const WORDS = {
  'Open drawer': 'Show controls', 'Close drawer': 'Hide controls',
  'Open contextbar': 'Show results', 'Close contextbar': 'Hide results',
};

// Rename the buttons now and after each change; return a function that stops this.
function renameLibraryWords() {
  let waiting = null;
  const observer = new MutationObserver(([change]) => rename(change.target.getRootNode()));
  const rename = (root) => {
    for (const button of root.querySelectorAll('header button[aria-label]')) {
      const words = WORDS[button.getAttribute('aria-label')];
      if (words) button.setAttribute('aria-label', words);
    }
    for (const tip of root.querySelectorAll('[role=tooltip] :not(:has(*))')) {
      const words = WORDS[tip.textContent];
      if (words) tip.firstChild.data = words;
    }
  };
  const begin = () => {                                   // the header is drawn at about the same time
    const header = Array.from(everyElement()).find((node) => node.matches('header'));
    if (!header) {
      waiting = setTimeout(begin, 100);
      return;
    }
    const root = header.getRootNode();
    observer.observe(root, { subtree: true, childList: true, characterData: true, attributeFilter: ['aria-label'] });
    rename(root);
  };
  begin();
  return () => {
    clearTimeout(waiting);
    observer.disconnect();
  };
}
