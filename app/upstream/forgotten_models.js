const { Document } = Bokeh.require('document/document'), schedule = Document.prototype._schedule_recompute_all_models;
Document.prototype._schedule_recompute_all_models = function () {
  if (this._recompute_timer == null) schedule.call(this);
};
