// panel-material-ui names the buttons of the two bars itself and takes no other words. Here they get the page's words, as
// names and in their tips: the library writes both anew when a bar opens or closes.
const WORDS = {
  'Open drawer': 'Show controls', 'Close drawer': 'Hide controls',
  'Open contextbar': 'Show results', 'Close contextbar': 'Hide results',
};

// Rename what is named like that, now and later. Returns a function that ends it.
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
