// One socket a browser: the tab that holds the lock listens for all, the others hear it over a channel. Messages say
// *that* a topic changed; parts.js asks again. A socket that is silent is dead, whatever it says. One socket takes so many
// topics: above that it asks for the lists that the rows are of, and each tab picks what it shows.
(() => {
  'use strict';
  const SILENCE = 45000; // ms without a word
  const FLOOR = 10000; // ms between questions while nothing is heard
  const FORGET = 300000; // ms after which a tab that said nothing more is none
  const MOST = 50; // topics a socket takes
  const LOCK = 'nightdesk-live';
  const root = document.documentElement, desk = window.nightdesk;
  const bus = 'BroadcastChannel' in window ? new BroadcastChannel(LOCK) : null;
  const others = new Map(); // the other tabs: their topics, and when they said so; kept by the one that listens
  const me = Math.random().toString(36);

  let socket = null, seq = root.dataset.seq || '', failures = 0, heard = Date.now(), looked = 0, lostAt = null, nextTry = 0;
  let leads = false, refused = 0, asked = '', introduced = 0, timer = 0;

  function state(name) {
    const was = root.dataset.conn;
    root.dataset.conn = name;
    document.querySelectorAll('[data-conn]').forEach(el => { el.dataset.state = name; });
    if (name !== 'live' && !lostAt) lostAt = new Date(heard);
    if (name === 'live') lostAt = null;
    if (was !== name || name === 'lost') document.dispatchEvent(new CustomEvent('nightdesk:conn', {detail: {name, lostAt, nextTry}}));
  }

  function take(message) {
    heard = Date.now();
    if (message.seq) seq = message.seq;
    if (message.resync) desk.refresh(); else if (message.topic) desk.refresh(message.topic, message.id);
    state('live');
  }

  // ---- the tab that leads: it alone has a socket -----------------------------------------------------------------
  function wanted() {
    for (const [tab, {at}] of others) if (Date.now() - at > FORGET) others.delete(tab);
    const all = [...new Set([...desk.topics(), ...[...others.values()].flatMap(one => one.topics)])];
    return refused || all.length > MOST ? [...new Set(all.flatMap(desk.listsOf))] : all;
  }

  function hello() {
    const topics = wanted();
    asked = topics.join(' ');
    if (socket?.readyState === 1) socket.send(JSON.stringify({topics, since: seq || null}));
  }

  function connect() {
    clearTimeout(timer);
    if (!leads || refused > 1 || (socket && socket.readyState < 2)) return;
    const mine = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws/live`);
    socket = mine;
    looked = Date.now();
    mine.onopen = () => { failures = 0; if (!seq) desk.refresh(); hello(); };
    mine.onmessage = ({data}) => { const message = JSON.parse(data); take(message); bus?.postMessage({message}); };
    mine.onclose = ({code}) => {
      if (socket !== mine) return;
      socket = null;
      if (code === 4401) return location.reload();
      if (code === 4403) refused += 1; // by its lists once more; then it only asks, every ten seconds
      failures += 1;
      const wait = Math.min(30000, 1000 * 2 ** Math.min(failures - 1, 5)) * (0.5 + Math.random() / 2);
      nextTry = Date.now() + wait;
      timer = setTimeout(connect, wait);
      state('lost');
      bus?.postMessage({lost: true});
      if (failures > 3 || refused > 1) poll();
    };
  }

  // ---- the tabs that follow --------------------------------------------------------------------------------------
  if (bus) bus.onmessage = ({data: {message, lost, topics, who, tab}}) => {
    if (who && !leads) introduce();
    if (tab && leads) {
      if (topics) others.set(tab, {topics, at: Date.now()}); else others.delete(tab);
      if (socket?.readyState === 1) hello(); else bus.postMessage({lost: true});
    }
    if (leads) return;
    if (message) take(message);
    if (lost) { looked = Date.now(); if (root.dataset.conn !== 'polling') state('lost'); poll(); } // it is there, and tries
  };
  function introduce() {
    if (introduced && Date.now() - introduced > FORGET) desk.refresh(); // it slept, and was forgotten
    introduced = Date.now();
    asked = desk.topics().join(' ');
    bus.postMessage({topics: desk.topics(), tab: me});
  }
  addEventListener('pagehide', () => { if (!leads) bus?.postMessage({tab: me}); });

  // The lock is held as long as the tab lives. Only a secure page has locks: elsewhere each tab has its own socket.
  function run(options) {
    if (!navigator.locks || !bus) { leads = true; return connect(); }
    navigator.locks.request(LOCK, options, () => {
      leads = true;
      connect();
      bus.postMessage({who: true});
      return new Promise(() => {});
    }).catch(() => { leads = false; socket?.close(); socket = null; run({}); }); // another tab took over
  }

  // ---- when nothing is heard ---------------------------------------------------------------------------------------
  // `since`: of a page that was drawn before the server knew one: whatever was told since then is asked for.
  async function poll(since = seq, always = false) {
    if (document.hidden || (!always && root.dataset.conn === 'live' && Date.now() - heard < SILENCE)) return;
    if (leads && refused > 1) bus?.postMessage({lost: true});
    try {
      const answer = await fetch(`/api/v1/live?since=${encodeURIComponent(since)}`, {credentials: 'same-origin'});
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const news = await answer.json();
      if (news.seq) seq = news.seq;
      if (news.resync || !since) desk.refresh(); else (news.changes || []).forEach(change => desk.refresh(change.topic, change.id));
      if (root.dataset.conn !== 'live') state('polling');
    } catch { state('lost'); }
  }

  function listen() {
    if (leads && refused > 1 || Date.now() - Math.max(heard, looked) <= SILENCE) return;
    looked = Date.now();
    if (!leads) { state('lost'); return document.hidden ? undefined : run({steal: true}); }
    const dead = socket;
    socket = null;
    failures = 1;
    dead?.close();
    state('lost');
    connect();
  }

  function wake() {
    if (document.hidden) return;
    if (Date.now() - heard > SILENCE) { desk.refresh(); listen(); }
    if (leads) connect(); else if (bus) introduce();
  }

  setInterval(listen, 5000);
  setInterval(() => poll(), FLOOR);
  setInterval(() => { if (!leads && bus) introduce(); }, FORGET / 5);
  document.addEventListener('visibilitychange', wake);
  ['online', 'pageshow'].forEach(name => addEventListener(name, wake));
  addEventListener('pageshow', ({persisted}) => { if (persisted) desk.refresh(); }); // it was away, and said so
  document.addEventListener('htmx:afterSettle', () => {
    if (leads && wanted().join(' ') !== asked) hello();
    if (!leads && desk.topics().join(' ') !== asked) introduce();
  });

  desk.retry = () => { failures = refused = 0; connect(); poll(); };
  state('connecting');
  run({});
  const drawnAt = seq;
  setTimeout(() => { if (!leads && bus) { introduce(); poll(drawnAt, true); } }, 200); // what happened since this page was drawn
})();
