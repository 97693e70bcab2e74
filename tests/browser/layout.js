// What is wrong with how a page is laid out now: text too small, cut, covered, or over other text; its plots, or these
// alone; and what it says first: its headlines and its first sentences, and whether they can be read;
// by how many px its right column is higher than its room.
(plotsAlone) => {
  const SMALLEST = 13.5;                                // px: 14, less what an accordion's animation leaves
  const HEADER = 72;                                    // px of the header, and half a line of text
  const EDGE = 2;                                       // px within which the middle of a text is at the edge of a scrolled part, or beyond
  const SAID = ['headline', 'first', 'says'];           // the readout's number and sentence, the finding of a crossover
  const STATUS = 40, LINE = 20;                         // px of the line at the bottom, and of a line of text
  const all = [], walk = (root) => {
    for (const node of root.querySelectorAll('*')) {
      all.push(node);
      if (node.shadowRoot) walk(node.shadowRoot);
    }
  };
  walk(document);
  const up = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const above = function* (node) { for (let one = up(node); one; one = up(one)) yield one; };
  const within = (node, other) => node === other || [...above(node)].includes(other);
  const shown = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const bar = all.find((node) => node.classList.contains('bar') && getComputedStyle(node).position == 'fixed' && shown(node));
  const ground = bar ? bar.getBoundingClientRect().top : innerHeight;
  const deepest = (x, y) => {
    let node = document.elementFromPoint(x, y);
    for (let inner; node?.shadowRoot && (inner = node.shadowRoot.elementFromPoint(x, y)) && inner !== node;) node = inner;
    return node;
  };
  const SILENT = ['STYLE', 'SCRIPT', 'NOSCRIPT', 'TITLE', 'OPTION'];
  const texts = plotsAlone ? [] : all.flatMap((node) => {
    const own = SILENT.includes(node.tagName) || /material-icons|MuiIcon-root/.test(node.className) ? [] : [...node.childNodes].filter((one) => one.nodeType == 3 && one.data.trim());
    if (!own.length || !shown(node)) return [];
    const range = document.createRange();
    range.setStartBefore(own[0]);
    range.setEndAfter(own.at(-1));
    const box = range.getBoundingClientRect(), scale = node.offsetWidth ? node.getBoundingClientRect().width / node.offsetWidth : 1;
    if (box.width < 2 || box.height < 2) return [];
    const lines = [...range.getClientRects()];
    return [{ node, box, lines, size: parseFloat(getComputedStyle(node).fontSize) * scale, words: own.map((one) => one.data.trim()).join(' ') }];
  });
  // Clipped by a part that can be scrolled, text is only out of sight; by any other it is cut.
  const fate = ({ node, box }) => {
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    const drawer = [...above(node)].some((one) => one.classList.contains('MuiDrawer-paper'));
    if (drawer && (y > Math.min(ground, innerHeight - STATUS) - LINE || y < HEADER)) return 'scrolled';     // below the line at the bottom, or above
    let scrolled = false;                               // by a part around it, within which it is in sight
    for (const one of [node, ...above(node)]) {
      if (one === document.body || one === document.documentElement) continue;
      const { overflowX, overflowY, position } = getComputedStyle(one), edge = one.getBoundingClientRect();
      const outX = box.right > edge.right + 2 || box.left < edge.left - 2, outY = box.bottom > edge.bottom + 5 || box.top < edge.top - 5;
      if ([overflowX, overflowY].some((how) => ['auto', 'scroll'].includes(how))) {
        if (x < edge.left + EDGE || x > edge.right - EDGE || y < edge.top + EDGE || y > edge.bottom - EDGE) return 'scrolled';
        scrolled = true;
      }
      if (!scrolled && (overflowX == 'hidden' && outX || overflowY == 'hidden' && outY)) return edge.width > 2 ? 'cut' : 'scrolled';
      if (position == 'fixed') break;
    }
    const outside = box.right > innerWidth + 2 || box.left < -2 || box.bottom > innerHeight + 2 || box.top < -2;
    return outside && !scrolled ? 'cut' : 'seen';
  };
  const fates = new Map(texts.map((text) => [text, fate(text)]));
  const seen = texts.filter((text) => fates.get(text) == 'seen');
  const hidden = new Set();
  const covered = seen.flatMap((text) => {
    const { node, lines, words } = text;
    const line = lines.find((one) => one.width > 1);    // the middle of a box of several lines can be another text's
    const top = deepest(line.left + line.width / 2, line.top + line.height / 2);
    if (!top || getComputedStyle(node).pointerEvents == 'none' || within(top, node) || within(node, top)) return [];
    hidden.add(text);
    const place = [top, ...above(top)].slice(0, 4).map((one) => one.localName + [...one.classList].slice(0, 2).map((name) => `.${name}`).join(''));
    return [{ words: `${words.slice(0, 60)}, by ${place.join(' in ')}` }];
  });
  // The lines of a text without what the parts around it clip.
  const visible = ({ node, lines }) => {
    const clips = [...above(node)].filter((one) => getComputedStyle(one).overflowY != 'visible' && one !== document.body && one !== document.documentElement)
      .map((one) => one.getBoundingClientRect());
    return lines.map((line) => ({ left: line.left, right: line.right,
      top: Math.max(line.top, ...clips.map((clip) => clip.top)), bottom: Math.min(line.bottom, ...clips.map((clip) => clip.bottom)) }));
  };
  const linesOf = new Map(seen.map((text) => [text, visible(text)]));
  const over = [];
  seen.forEach((one, index) => seen.slice(index + 1).forEach((other) => {
    const crossed = linesOf.get(one).some((a) => linesOf.get(other).some((b) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6));
    if (!crossed || within(one.node, other.node) || within(other.node, one.node)) return;
    over.push(`${one.words} / ${other.words}`);
  }));
  const plots = all.filter((node) => node.classList.contains('bk-Figure') && shown(node) && ![...above(node)].some((one) => one.classList.contains('contextbar')))
    .map((node) => node.getBoundingClientRect()).filter((box) => box.width > 2)
    .map((box) => ({ width: box.width, height: box.height, out: box.right > innerWidth + 2 || box.left < -2 || box.bottom > ground + 2 }));
  const inWindow = (box) => box.left > -2 && box.top > -2 && box.right < innerWidth + 2 && box.bottom < innerHeight + 2;
  const first = all.filter((node) => SAID.some((name) => node.classList.contains(name)) && node.localName != 'b' && shown(node)).map((node) => {
    const parts = texts.filter((text) => within(text.node, node));
    return { kind: SAID.find((name) => node.classList.contains(name)), words: parts.map((text) => text.words).join(' '),
      size: (node.classList.contains('headline') ? Math.max : Math.min)(...parts.map((text) => text.size)),
      read: parts.length > 0 && parts.every((text) => fates.get(text) == 'seen' && !hidden.has(text) && inWindow(text.box)) };
  });
  const column = texts.filter((text) => [...above(text.node)].some((one) => one.classList.contains('contextbar')));
  const scrolls = (node) => ['auto', 'scroll'].includes(getComputedStyle(node).overflowY) && node.scrollHeight > node.clientHeight + 1;
  const below = Math.max(0, ...column.map((text) => text.box.bottom)) - Math.min(ground, innerHeight - STATUS);
  const readout = { below, scrolls: column.some((text) => [...above(text.node)].some(scrolls)), words: column.length };
  const words = (list) => [...new Set(list.map((text) => text.words.slice(0, 200)))];
  return {
    small: words(texts.filter((text) => text.size < SMALLEST)), cut: words(texts.filter((text) => fates.get(text) == 'cut')),
    covered: words(covered), over: [...new Set(over)], plots, first, readout,
    scrolls: document.documentElement.scrollWidth > innerWidth + 1 || document.documentElement.scrollHeight > innerHeight + 1,
  };
}
