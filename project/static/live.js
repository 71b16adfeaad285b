// Live pages: the socket says *that* something changed; the page asks again for the parts it shows, under its own
// permissions. A part is an element with an id and data-live="topic topic". Rows carry data-key and data-version.
(() => {
  'use strict';
  const SILENCE = 45000; // ms without a word: the socket is dead, whatever it says
  const FLOOR = 10000; // ms between questions while there is no socket
  const GAP = 250; // ms between two refreshes: four a second at most
  const SWEEP = 60000; // ms: a lost hint costs no more than this
  const root = document.documentElement;
  if (root.dataset.here) history.replaceState(null, '', root.dataset.here);
  if (!document.querySelector('[data-socket]')) return;

  let socket = null, seq = root.dataset.seq || '', failures = 0, heard = 0, lostAt = null, ended = false;
  let paused = false, timer = 0, busy = false, notBefore = 0, asked = '';
  const dirty = new Set();

  // ---- parts -------------------------------------------------------------------------------------------------
  const parts = () => [...document.querySelectorAll('[data-live][id]')];
  const topics = () => [...new Set(parts().flatMap(part => part.dataset.live.split(/\s+/)).filter(Boolean))];
  const touch = topic => parts().forEach(part => {
    if (!topic || part.dataset.live.split(/\s+/).includes(topic)) dirty.add(part.id);
  });
  const schedule = () => {
    if (timer || busy || paused || document.hidden || !dirty.size) return;
    timer = setTimeout(refresh, Math.max(0, notBefore - Date.now()));
  };

  async function refresh() {
    timer = 0;
    const ids = [...dirty], url = location.href;
    dirty.clear();
    busy = true;
    const began = Date.now();
    try {
      const answer = await fetch(url, {headers: {'X-Parts': ids.join(' ')}, credentials: 'same-origin'});
      if (answer.status === 401 || answer.redirected) return location.reload();
      if (answer.ok && url === location.href) show(new DOMParser().parseFromString(await answer.text(), 'text/html'), ids);
    } catch { ids.forEach(id => dirty.add(id)); setTimeout(schedule, 2000); return; } finally {
      busy = false;
      notBefore = Math.max(began + GAP, Date.now() + 2 * (Date.now() - began)); // a slow answer asks for patience
    }
    schedule();
  }

  function show(page, ids) {
    for (const id of ids) {
      const old = document.getElementById(id), fresh = page.getElementById(id);
      if (old && fresh) morph(old, fresh);
    }
    if (page.title) document.title = page.title;
    document.dispatchEvent(new CustomEvent('nightdesk:refreshed'));
  }

  // ---- replace in place: focus, typed text, open details and scroll positions survive ---------------------------
  const keyOf = node => node.nodeType === 1 ? node.dataset.key || node.id || '' : '';
  const fits = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const typed = el => (el.matches('textarea, input:not([type=hidden])')
    && (el === document.activeElement || el.value !== el.defaultValue));

  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== 1) { if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue; return; }
    if (old.dataset.version && old.dataset.version === fresh.dataset.version && old.dataset.key) return;
    if (old.hasAttribute('data-keep') || typed(old)) return;
    for (const {name} of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
    }
    for (const {name, value} of fresh.attributes) {
      if (old.getAttribute(name) !== value && !(name === 'open' && old.nodeName === 'DETAILS')) old.setAttribute(name, value);
    }
    if (old.nodeName === 'TEXTAREA' || old.nodeName === 'INPUT') { old.value = fresh.value; return; }
    children(old, fresh);
  }

  function children(old, fresh) {
    const keyed = new Map([...old.children].filter(keyOf).map(node => [keyOf(node), node]));
    const calm = old.hasAttribute('data-calm') && keyed.size && (old.matches(':hover') || old.contains(document.activeElement));
    let held = 0, at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const key = keyOf(next);
      let mine = key ? keyed.get(key) : at && !keyOf(at) && fits(at, next) ? at : null;
      if (mine && !fits(mine, next)) mine = null;
      if (key && !mine && calm && next.hasAttribute('data-key')) { held += 1; continue; }
      if (mine) {
        if (mine === at) at = at.nextSibling; else old.insertBefore(mine, at);
        morph(mine, next);
        keyed.delete(key);
      } else {
        const added = document.importNode(next, true);
        if (key && keyed.size && added.dataset.key) added.classList.add('fresh');
        old.insertBefore(added, at);
        window.htmx?.process(added.nodeType === 1 ? added : old);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      if (gone.nodeType === 1 && gone.contains(document.activeElement) && gone.hasAttribute('data-keep')) continue;
      if (!held || !keyOf(gone)) gone.remove();
    }
    if (old.hasAttribute('data-calm')) pill(old, held);
  }

  // New rows wait behind a pill while a pointer or the focus is in the list: nothing moves under the finger.
  const keeping = new Set(); // lists that hold new rows back
  function pill(list, count) {
    keeping[count ? 'add' : 'delete'](list);
    const button = document.querySelector(`[data-pill="${list.id}"]`);
    if (!button) return;
    button.hidden = !count;
    button.querySelector('[data-n]').textContent = count;
  }
  document.addEventListener('click', event => {
    const button = event.target.closest('[data-pill]');
    if (!button) return;
    const list = document.getElementById(button.dataset.pill);
    list.removeAttribute('data-calm');
    touch(); schedule();
    document.addEventListener('nightdesk:refreshed', () => list.setAttribute('data-calm', ''), {once: true});
  });
  document.addEventListener('pointerout', event => {
    const list = event.target.closest?.('[data-calm]');
    if (keeping.has(list) && !list.contains(event.relatedTarget)) { touch(); schedule(); }
  });

  // ---- the socket ------------------------------------------------------------------------------------------------
  function state(name) {
    const was = root.dataset.conn;
    root.dataset.conn = name;
    document.querySelectorAll('[data-conn]').forEach(el => { el.dataset.state = name; });
    if (name !== 'live' && !lostAt) lostAt = new Date(heard || Date.now());
    if (name === 'live') lostAt = null;
    if (was !== name) document.dispatchEvent(new CustomEvent('nightdesk:conn', {detail: {name, lostAt}}));
  }

  function hello() {
    asked = topics().join(' ');
    socket.send(JSON.stringify({topics: topics(), since: seq || null}));
  }

  function connect() {
    if (ended || (socket && socket.readyState < 2)) return;
    const mine = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws/live`);
    socket = mine;
    heard = Date.now();
    mine.onopen = () => { failures = 0; if (!seq) touch(); hello(); };
    mine.onmessage = ({data}) => {
      const message = JSON.parse(data);
      heard = Date.now();
      if (message.seq) seq = message.seq;
      if (message.resync) touch(); else if (message.topic) touch(message.topic);
      state('live');
      schedule();
    };
    mine.onclose = ({code}) => {
      if (socket !== mine) return;
      socket = null;
      if (code === 4401) return location.reload();
      if (code === 4403) { ended = true; return state('lost'); }
      failures += 1;
      state(failures > 3 ? 'polling' : 'lost');
      setTimeout(connect, Math.min(30000, 1000 * 2 ** Math.min(failures - 1, 5)) * (0.5 + Math.random() / 2));
    };
  }

  async function poll() {
    if (socket?.readyState === 1 || document.hidden || ended) return;
    try {
      const answer = await fetch(`/api/v1/live?since=${encodeURIComponent(seq)}`, {credentials: 'same-origin'});
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const news = await answer.json();
      if (news.seq) seq = news.seq;
      if (news.resync) touch(); else (news.changes || []).forEach(change => touch(change.topic));
      state('polling');
      schedule();
    } catch { state('lost'); }
  }

  setInterval(() => {
    if (socket?.readyState === 1 && Date.now() - heard > SILENCE) { const dead = socket; socket = null; dead.close(); failures = 1; state('lost'); connect(); }
  }, 5000);
  setInterval(poll, FLOOR);
  setInterval(() => { touch(); schedule(); }, SWEEP);
  const wake = () => { if (!document.hidden) { connect(); if (heard && Date.now() - heard > SILENCE) touch(); schedule(); } };
  document.addEventListener('visibilitychange', wake);
  ['online', 'pageshow'].forEach(name => addEventListener(name, wake));
  document.addEventListener('htmx:afterSettle', () => { if (socket?.readyState === 1 && topics().join(' ') !== asked) hello(); });
  state('connecting');
  connect();

  window.nightdesk = {
    refresh: topic => { touch(topic); schedule(); },
    retry: () => { failures = 0; connect(); poll(); },
    pause: yes => { paused = yes; schedule(); },
  };
})();
