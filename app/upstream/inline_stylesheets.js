// data: the text of each style sheet, by address below static/extensions/.
const { ImportedStyleSheet: LinkedSheet, InlineStyleSheet: TextSheet } = Bokeh.require('core/dom');
const { ImportedStyleSheet } = Bokeh.require('models/dom/stylesheets'), { underlying } = ImportedStyleSheet.prototype;
const ComponentView = Bokeh.Models.get('panel.models.esm.ReactiveESM').prototype.default_view;
const { stylesheets } = ComponentView.prototype;
const texts = new Map();                       // by address; null if the sheet stays linked

function textAt(address) {
  const { href } = new URL(address, document.baseURI), css = data[href.match(/static\/extensions\/([^?]*)/)?.[1]];
  return css?.replace(/url\('(\.[^']*)'\)/g, (_, path) => `url('${new URL(path, href)}')`) ?? null;
}

function inlined(address) {
  if (!texts.has(address)) texts.set(address, textAt(address));
  const css = texts.get(address);
  return css == null ? null : new TextSheet(css);
}

ImportedStyleSheet.prototype.underlying = function () {
  return inlined(this.url) ?? underlying.call(this);
};
ComponentView.prototype.stylesheets = function () {
  return stylesheets.call(this).map((sheet) => (sheet instanceof LinkedSheet && inlined(sheet.el.href)) || sheet);
};
