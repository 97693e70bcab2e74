// Tiles of presets. Messages: { pick: index } and { about: index }.

export function render({ model }) {
  const list = document.createElement('ul');
  list.className = 'presets';
  const button = (kind, words, act, ...children) => {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = kind;
    made.setAttribute('aria-label', words);
    made.title = words;
    made.addEventListener('click', act);
    made.append(...children);
    return made;
  };
  const text = (tag, kind, words) => Object.assign(document.createElement(tag), { className: kind, textContent: words });
  const picture = (item) => {
    if (item.picture) return Object.assign(new Image(), { className: 'picture', src: item.picture, alt: '' });
    const made = text('span', 'picture', '');
    made.innerHTML = item.equation;           // MathML that the server has made from the parsed equations
    return made;
  };
  const entry = (item, index) => {
    const made = document.createElement('li'), words = document.createElement('span');
    words.append(text('b', '', item.title), text('span', 'line', item.line));
    const load = button('load', `Load ${item.title}. ${item.line}`, () => model.send_msg({ pick: index }),
      picture(item), words);
    const about = button('about', `About ${item.title}`, () => model.send_msg({ about: index }), '?');
    made.append(load, about);
    return made;
  };
  const mark = () => {
    for (const [index, node] of [...list.querySelectorAll('.load')].entries())
      node.setAttribute('aria-current', String(index == model.current));
  };
  list.append(...model.items.map(entry));
  mark();
  model.on('current', mark);
  return list;
}
