// One socket a browser: the tab that holds the lock listens for all, the others hear it over a channel. Messages say
// *that* a topic changed; parts.js asks again. A socket that is silent is dead, whatever it says.
(() => {
  'use strict';
  const SILENCE = 45000; // ms without a word
  const FLOOR = 10000; // ms between questions while nothing is heard
  const LOCK = 'nightdesk-live';
  const root = document.documentElement, desk = window.nightdesk;
  const bus = 'BroadcastChannel' in window ? new BroadcastChannel(LOCK) : null;
  const others = new Set(); // topics of the other tabs, kept by the one that listens

  let socket = null, seq = root.dataset.seq || '', failures = 0, heard = Date.now(), looked = 0, lostAt = null, nextTry = 0;
  let leads = false, ended = false, asked = '', timer = 0;

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
    if (message.resync) desk.refresh(); else if (message.topic) desk.refresh(message.topic);
    state('live');
  }

  // ---- the tab that leads: it alone has a socket -----------------------------------------------------------------
  function hello() {
    const topics = [...new Set([...desk.topics(), ...others])];
    asked = topics.join(' ');
    if (socket?.readyState === 1) socket.send(JSON.stringify({topics, since: seq || null}));
  }

  function connect() {
    clearTimeout(timer);
    if (!leads || ended || (socket && socket.readyState < 2)) return;
    const mine = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws/live`);
    socket = mine;
    looked = Date.now();
    mine.onopen = () => { failures = 0; if (!seq) desk.refresh(); hello(); };
    mine.onmessage = ({data}) => { const message = JSON.parse(data); take(message); bus?.postMessage({message}); };
    mine.onclose = ({code}) => {
      if (socket !== mine) return;
      socket = null;
      if (code === 4401) return location.reload();
      if (code === 4403) { ended = true; return state('lost'); }
      failures += 1;
      const wait = Math.min(30000, 1000 * 2 ** Math.min(failures - 1, 5)) * (0.5 + Math.random() / 2);
      nextTry = Date.now() + wait;
      timer = setTimeout(connect, wait);
      state('lost');
      bus?.postMessage({lost: true});
      if (failures > 3) poll();
    };
  }

  // ---- the tabs that follow --------------------------------------------------------------------------------------
  if (bus) bus.onmessage = ({data: {message, lost, topics, who}}) => {
    if (who && !leads) introduce();
    if (topics && leads) { topics.forEach(topic => others.add(topic)); if (socket?.readyState === 1) hello(); else bus.postMessage({lost: true}); }
    if (leads) return;
    if (message) take(message);
    if (lost) { looked = Date.now(); state('lost'); poll(); } // it is there, and tries
  };
  function introduce() { asked = desk.topics().join(' '); bus.postMessage({topics: desk.topics()}); }

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
  async function poll() {
    if (document.hidden || ended || (root.dataset.conn === 'live' && Date.now() - heard < SILENCE)) return;
    const since = seq; // of a page that was drawn before the server knew one: whatever was told since then is asked for
    try {
      const answer = await fetch(`/api/v1/live?since=${encodeURIComponent(since)}`, {credentials: 'same-origin'});
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const news = await answer.json();
      if (news.seq) seq = news.seq;
      if (news.resync || !since) desk.refresh(); else (news.changes || []).forEach(change => desk.refresh(change.topic));
      if (root.dataset.conn !== 'live') state('polling');
    } catch { state('lost'); }
  }

  function listen() {
    if (Date.now() - Math.max(heard, looked) <= SILENCE) return;
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
    if (leads) connect(); else if (root.dataset.conn !== 'live') introduce();
  }

  setInterval(listen, 5000);
  setInterval(poll, FLOOR);
  document.addEventListener('visibilitychange', wake);
  ['online', 'pageshow'].forEach(name => addEventListener(name, wake));
  document.addEventListener('htmx:afterSettle', () => {
    if (leads && !desk.topics().every(topic => asked.split(' ').includes(topic))) hello();
    if (!leads && desk.topics().join(' ') !== asked) introduce();
  });

  desk.retry = () => { failures = 0; connect(); poll(); };
  state('connecting');
  run({});
  setTimeout(() => { if (!leads) { introduce(); poll(); } }, 200); // what happened since this page was drawn
})();
