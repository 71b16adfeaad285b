// The parts of a page that move by themselves: an element with an id and data-live="topic topic". When a topic is
// touched, the page asks again for its parts, under its own permissions, at most four times a second, and puts them in
// place row by row. Rows carry data-key and data-version.
(() => {
  'use strict';
  const GAP = 250; // ms between two refreshes
  const SWEEP = 60000; // ms: a lost hint costs no more than this
  const root = document.documentElement;
  if (root.dataset.here) history.replaceState(null, '', root.dataset.here);

  let paused = false, timer = 0, busy = false, notBefore = 0;
  const dirty = new Set();

  const parts = () => [...document.querySelectorAll('[data-live][id]')];
  const topics = () => [...new Set(parts().flatMap(part => part.dataset.live.split(/\s+/)).filter(Boolean))];
  const touch = topic => parts().forEach(part => {
    if (!topic || part.dataset.live.split(/\s+/).includes(topic)) dirty.add(part.id);
  });
  const schedule = () => {
    if (timer || busy || paused || document.hidden || !dirty.size) return;
    timer = setTimeout(refresh, Math.max(0, notBefore - Date.now()));
  };

  // A form that was just sent may be why this address leads elsewhere now: a reload would stop its answer.
  let leaving = 0;
  addEventListener('beforeunload', () => { leaving = Date.now() + 10000; });

  async function refresh() {
    timer = 0;
    const ids = [...dirty], url = location.href;
    dirty.clear();
    busy = true;
    const began = Date.now();
    try {
      const answer = await fetch(url, {headers: {'X-Parts': ids.join(' ')}, credentials: 'same-origin'});
      if (answer.status === 401 || answer.redirected) { if (Date.now() > leaving) location.reload(); return; }
      if (answer.status >= 500 || answer.status === 429) throw new Error(answer.status); // not now: it asks again
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
    const icon = document.querySelector('link[rel=icon]'), next = page.querySelector('link[rel=icon]');
    if (icon && next && icon.getAttribute('href') !== next.getAttribute('href')) icon.href = next.getAttribute('href');
    document.dispatchEvent(new CustomEvent('nightdesk:refreshed'));
  }

  // ---- replace in place: focus, typed text, open details and scroll positions survive ---------------------------
  const keyOf = node => node.nodeType === 1 ? node.dataset.key || node.getAttribute('id') || '' : ''; // a form's `.id` may be a field
  const fits = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const typed = el => (el.matches('textarea, input:not([type=hidden])')
    && (el === document.activeElement || el.value !== el.defaultValue));

  function tint(el) { // what changed in place shows for a moment that it did
    el.classList.remove('fresh');
    requestAnimationFrame(() => el.classList.add('fresh'));
  }

  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== 1) { if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue; return; }
    if (old.dataset.version && old.dataset.version === fresh.dataset.version && old.dataset.key) return;
    if (old.hasAttribute('data-keep') || typed(old)) return;
    if (old.dataset.key && old.dataset.version && fresh.dataset.version) tint(old);
    for (const {name} of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
    }
    for (const {name, value} of fresh.attributes) {
      if (old.getAttribute(name) !== value && !(name === 'open' && old.nodeName === 'DETAILS')) old.setAttribute(name, value);
    }
    if (old.nodeName === 'TEXTAREA' || old.nodeName === 'INPUT') { old.value = fresh.value; return; }
    children(old, fresh);
  }

  // Somebody is in it, or it was sent: its answer finds its places on the page from where it stands.
  const isInUse = form => form.contains(document.activeElement) || form.matches('.htmx-request');

  function children(old, fresh) {
    const keyed = new Map([...old.children].filter(keyOf).map(node => [keyOf(node), node]));
    const calm = old.hasAttribute('data-calm') && !letIn.delete(old.id) && keyed.size && (old.matches(':hover') || old.contains(document.activeElement));
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
      if (gone.nodeType === 1 && gone.hasAttribute('data-keep') && isInUse(gone)) continue;
      if (!held || !keyOf(gone)) gone.remove();
    }
    if (old.hasAttribute('data-calm')) pill(old, held);
  }

  // New rows wait behind a pill while a pointer or the focus is in the list: nothing moves under the finger.
  const keeping = new Set(); // lists that hold new rows back
  const letIn = new Set(); // ids of those that show them all the same, for the pill was pressed
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
    letIn.add(button.dataset.pill);
    again();
  });
  document.addEventListener('pointerout', event => {
    const list = event.target.closest?.('[data-calm]');
    if (keeping.has(list) && !list.contains(event.relatedTarget)) { again(); }
  });

  function again(topic) { touch(topic); schedule(); }
  setInterval(() => again(), SWEEP);
  document.addEventListener('visibilitychange', schedule);

  window.nightdesk = {
    topics,
    refresh: again,
    pause: yes => { paused = yes; schedule(); },
  };
})();
