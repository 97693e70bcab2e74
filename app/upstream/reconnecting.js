// GONE, NO_COOKIE: close codes of app/server/page_ids.py. MOST: number of attempts until the delay is constant.
// SPREAD: ms, greatest random delay of a reload.
const { ClientConnection } = Bokeh.require('client/connection'), { Receiver } = Bokeh.require('protocol/receiver');
const GONE = 4410, NO_COOKIE = 4411, MOST = 3, SPREAD = 3000;
const COOKIES = 'Fieldlab cannot connect this page with its server, because this browser stores no cookies for this address. Allow cookies, then reload the page.';
const { connect, _try_reconnect, _reconnect_delay, _on_close } = ClientConnection.prototype;
const reconnects = (connection) => connection.session?.document.config.reconnect_session;
const returning = new WeakSet();               // connections with a listener that retries when online
const reload = () => setTimeout(() => location.reload(), SPREAD * Math.random());

ClientConnection.prototype.connect = function () {
  this._receiver = new Receiver();
  return connect.call(this);
};

ClientConnection.prototype._try_reconnect = function (force) {
  if (reconnects(this) && !returning.has(this)) {
    returning.add(this);
    addEventListener('online', () => this._try_reconnect(true));
  }
  _try_reconnect.call(this, force);
  this._reconnection_attempts_left = Math.max(this._reconnection_attempts_left, 5 - MOST);
};

ClientConnection.prototype._reconnect_delay = function () {
  return _reconnect_delay.call(this) * (0.5 + Math.random());
};

ClientConnection.prototype._on_close = function (event, reject) {
  if (event.code == GONE) {
    reject(new Error('this page is no longer there'));
    reload();
    return;
  }
  if (event.code == NO_COOKIE) {
    reject(new Error(COOKIES));
    const notice = Object.assign(document.createElement('p'), { role: 'alert', textContent: COOKIES });
    notice.style.cssText = 'position: fixed; inset: 0 0 auto; z-index: 10000; margin: 0; padding: 16px 24px; font: 18px/1.5 Roboto, sans-serif; color: #fff; background: #b3261e;';
    document.body.append(notice);
    return;
  }
  _on_close.call(this, event, reject);
  if (reconnects(this) && this.reconnection_attempts >= MOST) {
    const answers = ({ type, status }) => type == 'opaqueredirect' || status < 500;
    fetch(location.href, { method: 'HEAD', cache: 'no-store', redirect: 'manual' }).then((answer) => answers(answer) && reload(), () => {});
  }
};
