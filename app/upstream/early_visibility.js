// Until a view is rendered, its callbacks change an element outside the page; render() replaces it and reads the model.
const HTMLView = Bokeh.Models.get('panel.models.markup.HTML').prototype.default_view, { connect_signals } = HTMLView.prototype;

HTMLView.prototype.connect_signals = function () {
  this.container ??= document.createElement('div');
  connect_signals.call(this);
};
