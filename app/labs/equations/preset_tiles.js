// Tiles of presets. Messages: { pick: index } and { about: index }.

export function render({ model }) {
  const button = (className, label, click, ...children) =>
    make('button', { type: 'button', className, label, title: label, click }, ...children);
  const picture = (item) => {
    if (item.picture) return make('img', { className: 'picture', src: item.picture, alt: '' });
    return make('span', { className: 'picture', innerHTML: item.equation });    // MathML from the server
  };
  const entry = (item, index) => {
    const words = make('span', {},
      make('b', { textContent: item.title }), make('span', { className: 'line', textContent: item.line }));
    const load = button('load', `Load ${item.title}. ${item.line}`, () => model.send_msg({ pick: index }),
      picture(item), words);
    const about = button('about', `About ${item.title}`, () => model.send_msg({ about: index }), '?');
    return make('li', {}, load, about);
  };
  const list = make('ul', { className: 'presets' }, ...model.items.map(entry));
  const mark = () => {
    for (const [index, node] of [...list.querySelectorAll('.load')].entries())
      node.setAttribute('aria-current', String(index == model.current));
  };
  mark();
  model.on('current', mark);
  return list;
}
