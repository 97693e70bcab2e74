// Bookmarks as pictures. Messages: { pick: index } and { drop: title }.

export function render({ model }) {
  const list = make('ul', { className: 'places' });
  const button = (className, label, click, ...children) =>
    make('button', { type: 'button', className, label, title: label, click }, ...children);
  const entries = () => model.items.map((item, index) => {
    const place = button('place', `Go to ${item.title}`, () => model.send_msg({ pick: index }),
      make('img', { src: item.picture, alt: '' }), make('span', { textContent: item.title }));
    const drop = button('drop', `Remove ${item.title}`, (event) => {
      if (event.detail < 2) model.send_msg({ drop: item.title });       // a double click removes one mark
    }, '×');
    return make('li', {}, place, ...(item.own ? [drop] : []));
  });
  const draw = () => {    // the focused button keeps the focus; if it was removed, the next one gets it
    const before = [...list.querySelectorAll('button')], had = before.indexOf(list.getRootNode().activeElement);
    list.replaceChildren(...entries());
    const now = [...list.querySelectorAll('button')];
    if (had >= 0) {
      const same = now.find((node) => node.title == before[had].title);
      (same ?? now[Math.min(had, now.length - 1)]).focus({ preventScroll: true });
    }
    if (now.length >= before.length) list.scrollTop = list.scrollHeight;
  };
  list.append(...entries());
  model.on('items', draw);
  return list;
}
