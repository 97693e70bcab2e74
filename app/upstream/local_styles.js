const { ImportedStyleSheet: Link } = Bokeh.require('core/dom');
const { ImportedStyleSheet } = Bokeh.require('models/dom/stylesheets'), { underlying } = ImportedStyleSheet.prototype;
const CDN = /^https:\/\/cdn\.holoviz\.org\/panel\/[^/]+\/dist\//;

ImportedStyleSheet.prototype.underlying = function () {
  return CDN.test(this.url) ? new Link(this.url.replace(CDN, 'static/extensions/panel/')) : underlying.call(this);
};
