// Keys. Single ones are off while typing, in a dialog and during IME composition, and can be switched off in Settings.
// A key that does something is dead for 400 ms after the page changed (not the one that takes back). Each key is a
// visible control, the one with data-shortcut, and works when that does.
(() => {
  'use strict';
  const GO = {h: '/', a: '/approvals', d: '/dead-letters', e: '/events', r: '/runs', t: '/triggers', p: '/practice'};
  const SETTLE = 400, CHORD = 1200; // ms
  const shown = selector => [...document.querySelectorAll(selector)].find(el => el.offsetParent && !el.disabled);

  document.addEventListener('keydown', event => {  // no single key, so it works while typing and with those off
    if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    const box = shown('[data-find]');
    if (box) box.select(); else location.assign('/find');
  });
  if (document.documentElement.dataset.keys === 'off') return;

  let changed = Date.now(), lead = '', led = 0, ticked = null;
  function mark() { changed = Date.now(); }
  document.addEventListener('nightdesk:refreshed', mark);
  document.addEventListener('htmx:afterSettle', mark);

  const rows = () => [...document.querySelectorAll('[data-row]')].filter(row => row.offsetParent);
  function step(by) {
    const list = rows();
    if (!list.length) return;
    const focused = list.indexOf(document.activeElement.closest?.('[data-row]'));
    const current = focused >= 0 ? focused : list.findIndex(row => row.hasAttribute('aria-current'));
    list[Math.max(0, Math.min(list.length - 1, current < 0 ? 0 : current + by))].focus();
    changed = Date.now();
  }

  function press(key) {
    const control = shown(`[data-shortcut="${CSS.escape(key)}"]`), row = document.activeElement.closest?.('[data-row]');
    if (!control) return false;
    // What is decided is what one looks at: where another row has the focus, it is shown first.
    if (row && !row.hasAttribute('aria-current') && control.matches('[data-careful]')) { row.click(); return true; }
    if (!control.hasAttribute('data-at-once') && Date.now() - changed < SETTLE) return true;
    const note = control.form?.elements[control.dataset.needs];
    if (note && !note.value.trim()) { control.form.dataset.begun = control.value; note.focus(); }
    else if (control.matches('textarea, input, select')) control.focus();
    else control.click();
    return true;
  }

  // Choose the row that has the focus; with `range`, all from the last one that was chosen.
  function choose(range) {
    const boxes = [...document.querySelectorAll('[data-choose]')].filter(box => box.offsetParent);
    const here = boxes.indexOf(document.activeElement.closest?.('tr')?.querySelector('[data-choose]'));
    if (here < 0) return;
    const from = range && boxes.includes(ticked) ? boxes.indexOf(ticked) : here, on = range || !boxes[here].checked;
    boxes.slice(Math.min(from, here), Math.max(from, here) + 1).forEach(box => { box.checked = on; });
    ticked = boxes[here];
    ticked.dispatchEvent(new Event('change', {bubbles: true}));
  }

  // Back to the list, to the place in it when one came from there.
  function back() {
    const link = shown('.crumbs a');
    const from = document.referrer && new URL(document.referrer);
    if (from && link && from.origin === location.origin && from.pathname === link.pathname) history.back();
    else link?.click();
  }

  const ALWAYS = {
    j: () => step(1),
    k: () => step(-1),
    o: () => document.activeElement.matches('[data-row]') && document.activeElement.click(),
    u: back,
    x: () => choose(false),
    X: () => choose(true),
    f: () => shown('.filters :is(input, select, summary)')?.focus(),
    '/': () => (shown('.filters input:not([type=checkbox])') || shown('[data-find]'))?.focus(),
    t: () => document.querySelector('[data-times]')?.click(),
    '?': () => document.getElementById('keys')?.showModal(),
  };

  const busy = event => event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey || event.altKey
    || event.defaultPrevented || event.repeat && !'jk'.includes(event.key)
    || event.target.matches('input, textarea, select, [contenteditable]') || document.querySelector('dialog[open]');

  document.addEventListener('keydown', event => {
    if (busy(event)) return;
    const {key} = event;
    if (key.length > 1) lead = key === 'Shift' ? lead : '';
    else if (lead) {  // the key behind one that leads does nothing else, however late it comes
      const first = lead, all = shown('[data-all]');
      lead = '';
      if (Date.now() - led < CHORD) {
        if (first === 'g' && GO[key]) location.assign(GO[key]);
        else if (first === '*' && key === 'a' && all) all.click();
      }
      event.preventDefault();
      return;
    } else if ('g*'.includes(key)) { lead = key; led = Date.now(); return; }
    if (Object.hasOwn(ALWAYS, key)) { event.preventDefault(); ALWAYS[key](); return; }
    if (key.length === 1 && press(key)) event.preventDefault();
  });
})();
