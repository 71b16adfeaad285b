// Single keys. Off while typing, in a dialog, during IME composition and for 400 ms after the page changed;
// "a" works only on a card that was on screen for a second. Each key is a visible control with data-shortcut.
(() => {
  'use strict';
  document.addEventListener('keydown', event => {  // no single key, so it works while typing and with those off
    if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    const box = document.querySelector('[data-find]');
    if (box?.offsetParent) box.select(); else location.assign('/find');
  });
  if (document.documentElement.dataset.keys === 'off') return;
  const GO = {h: '/', a: '/approvals', d: '/dead-letters', e: '/events', r: '/runs', t: '/triggers', p: '/practice'};
  const SETTLE = 400, SEEN = 1000, CHORD = 1200; // ms
  let changed = Date.now(), opened = Date.now(), going = 0, card = cardOf();

  function cardOf() { return document.querySelector('[data-card]')?.dataset.card || ''; }
  function mark() {
    changed = Date.now();
    if (cardOf() !== card) { card = cardOf(); opened = Date.now(); }
  }
  document.addEventListener('nightdesk:refreshed', mark);
  document.addEventListener('htmx:afterSettle', mark);

  const rows = () => [...document.querySelectorAll('[data-row]')].filter(row => row.offsetParent);
  function step(by) {
    const list = rows();
    if (!list.length) return;
    const focused = list.indexOf(document.activeElement.closest?.('[data-row]'));
    const current = focused >= 0 ? focused : list.findIndex(row => row.hasAttribute('aria-current'));
    list[Math.max(0, Math.min(list.length - 1, current < 0 ? 0 : current + by))].focus();
  }

  function press(key) {
    const control = [...document.querySelectorAll(`[data-shortcut="${CSS.escape(key)}"]`)].find(el => el.offsetParent && !el.disabled);
    if (!control) return false;
    if (control.hasAttribute('data-careful') && (Date.now() - opened < SEEN || Date.now() - changed < SETTLE)) return true;
    const note = control.form?.elements[control.dataset.needs];
    if (note && !note.value.trim()) note.focus();
    else if (control.matches('textarea, input, select')) control.focus();
    else control.click();
    return true;
  }

  const busy = event => event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented
    || event.target.matches('input, textarea, select, [contenteditable]') || document.querySelector('dialog[open]');

  document.addEventListener('keydown', event => {
    if (busy(event)) return;
    const {key} = event;
    if (going && Date.now() - going < CHORD && GO[key]) { going = 0; event.preventDefault(); location.assign(GO[key]); return; }
    going = key === 'g' ? Date.now() : 0;
    if (key === 'j' || key === 'k') { step(key === 'j' ? 1 : -1); event.preventDefault(); return; }
    if (key === 'o' && document.activeElement.matches('[data-row]')) { document.activeElement.click(); return; }
    if (key === '?') { document.getElementById('keys')?.showModal(); event.preventDefault(); return; }
    if (key.length === 1 && press(key)) event.preventDefault();
  });
})();
