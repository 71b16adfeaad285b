// Times: countdowns, "3 min ago" or the clock, the clock itself, and since when the page is not live.
(() => {
  'use strict';
  const root = document.documentElement;
  const every = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const pad = n => String(n).padStart(2, '0');

  // The server says seconds left and its own time, so a wrong clock here changes nothing.
  const offset = Date.parse(root.dataset.now || '') - Date.now() || 0;
  const now = () => Date.now() + offset;
  const clock = (at, more) => at.toLocaleTimeString('en-GB', {timeZone: root.dataset.zone, hour12: false, ...more});
  const day = at => at.toLocaleDateString(root.lang === 'en' ? 'en-GB' : root.lang, {timeZone: root.dataset.zone, day: '2-digit', month: 'short'});

  function words(seconds) {
    if (seconds >= 86400) return say('{d} d {h} h', {d: Math.floor(seconds / 86400), h: Math.floor(seconds % 86400 / 3600)});
    if (seconds >= 3600) return say('{h} h {m} min', {h: Math.floor(seconds / 3600), m: Math.floor(seconds % 3600 / 60)});
    if (seconds >= 600) return say('{m} min', {m: Math.floor(seconds / 60)});
    return `${Math.floor(seconds / 60)}:${pad(seconds % 60)}`;
  }

  function ago(seconds) {
    if (seconds < 2) return say('just now');
    if (seconds < 60) return say('{n} s ago', {n: seconds});
    if (seconds < 3600) return say('{n} min ago', {n: Math.floor(seconds / 60)});
    if (seconds < 86400) return say('{n} h ago', {n: Math.floor(seconds / 3600)});
    return say('{n} d ago', {n: Math.floor(seconds / 86400)});
  }

  let exact = false; // clock times instead of "3 min ago"; this browser remembers
  try { exact = localStorage.times === 'clock'; } catch { /* a browser that keeps nothing */ }

  function said(at) {
    if (!exact) return ago(Math.max(0, Math.round((now() - at) / 1000)));
    const moment = new Date(at), short = clock(moment, {hour: '2-digit', minute: '2-digit'});
    return day(moment) === day(new Date(now())) ? short : `${day(moment)} ${short}`;
  }

  const over = new Set(); // moments that passed while the page was open: each is a reason to look again, once
  function tick() {
    every('[data-until]', el => {
      const left = Math.round((Date.parse(el.dataset.until) - now()) / 1000);
      const text = el.dataset.unit === 's' ? say('{s} s', {s: Math.max(0, left)}) : words(Math.max(0, left));
      if (el.textContent !== text) el.textContent = text;
      el.closest('.left')?.classList.toggle('soon', left < 600);
      if (left <= 0 && !over.has(el.dataset.until)) { over.add(el.dataset.until); setTimeout(() => window.nightdesk?.refresh(), 600); }
    });
    every('time[data-ago]', el => {
      const text = said(Date.parse(el.dateTime));
      if (el.textContent !== text) el.textContent = text;
    });
    every('[data-clock]', el => { el.textContent = clock(new Date(now())); });
    every('[data-next-try]', el => {
      const left = Math.ceil((Number(el.dataset.nextTry) - Date.now()) / 1000);
      el.textContent = left > 0 ? say('Trying again in {n} s.', {n: left}) : say('Trying again.');
    });
  }

  function label() {
    every('[data-times] [data-label]', el => { el.textContent = exact ? say('Show how long ago') : say('Show clock times'); });
  }
  document.addEventListener('click', event => {
    if (!event.target.closest?.('[data-times]')) return;
    exact = !exact;
    try { localStorage.times = exact ? 'clock' : 'ago'; } catch { /* as above */ }
    label();
    tick();
  });
  label();
  tick();
  setInterval(tick, 1000);
  document.addEventListener('nightdesk:refreshed', tick);
  document.addEventListener('htmx:afterSettle', tick);

  // ---- the zone of this browser, where times are shown in another one ----------------------------------------------
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (here && here !== root.dataset.zone) every('[data-browser-zone]', el => {
    el.hidden = false;
    el.value = here;
    el.querySelector('[data-label]').textContent = here;
  });

  // ---- not live: told after three seconds, since a reload of the server takes one ----------------------------------
  let banner = 0;
  document.addEventListener('nightdesk:conn', ({detail: {name, lostAt, nextTry}}) => {
    every('[data-next-try]', el => { el.dataset.nextTry = nextTry; });
    if (name !== 'lost') {
      clearTimeout(banner);
      banner = 0;
      every('[data-not-live]', el => { el.hidden = true; });
    } else {
      banner ||= setTimeout(() => every('[data-not-live]', el => {
        el.hidden = false;
        el.querySelector('[data-since]').textContent = clock(lostAt);
        tick();
      }), 3000);
    }
  });
})();
