// Panel's own useState is still used for events and children.
const Component = Bokeh.Models.get('panel.models.esm.ReactComponent'), { _render_code } = Component.prototype;
const STATE = /if \(name == "useState"\) \{\s*return \(prop\) => \{/;

Component.prototype._render_code = function () {
  const code = _render_code.call(this);
  return code.replace(STATE, '$& if (fieldlab.plain(target, prop)) return fieldlab.shared(React, target, prop);');
};

window.fieldlab = {
  // Return whether `prop` is a value of the model, neither an event nor a child.
  plain: ({ model }, prop) => (
    prop in model.data.attributes && !model.events.includes(prop) && !model.children.includes(prop)
  ),

  // Return [value, set] of the model's property `prop`, like React.useState; `set` accepts a value or a function.
  shared: (React, { model }, prop) => {
    const { data } = model, read = () => data.attributes[prop];
    const listen = React.useCallback((changed) => {
      const { change } = data.property(prop);
      change.connect(changed);
      return () => change.disconnect(changed);
    }, [data]);
    const set = React.useCallback((value) => {
      data.setv({ [prop]: typeof value == 'function' ? value(read()) : value });
    }, [data]);
    return [React.useSyncExternalStore(listen, read), set];
  },
};
