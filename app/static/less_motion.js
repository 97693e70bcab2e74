// Disable transitions and animations if the system setting prefers reduced motion. Style rules of the page do not apply
// in the shadow trees of its components, so the rule is added to each existing and future shadow root.
const WALKS = [0, 1000, 4000, 15000];           // ms; components created before this script are attached later

function lessMotion() {
  const rule = 'animation-duration: 0s !important; transition-duration: 0s !important;';
  const still = new CSSStyleSheet();
  still.replaceSync(`@media (prefers-reduced-motion: reduce) { *, *::before, *::after { ${rule} } }`);
  const known = new WeakSet();
  const take = (root) => {
    if (known.has(root)) return;
    known.add(root);
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, still];
  };
  const walk = (root) => {
    for (const { shadowRoot } of root.querySelectorAll('*')) {
      if (!shadowRoot) continue;
      take(shadowRoot);
      walk(shadowRoot);
    }
  };
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    take(root);
    return root;
  };
  take(document);
  for (const wait of WALKS) setTimeout(walk, wait, document);
}
