// The parts of a page that move by themselves: an element with an id and data-live="topic topic". When a topic is
// touched, the page asks again for its parts, under its own permissions, at most four times a second, and puts them in
// place row by row. Rows carry data-key and data-version.
(() => {
  'use strict';
  const GAP = 250; // ms from what was shown to the next asking
  const SWEEP = 60000; // ms: a lost hint costs no more than this
  const LATE = 300; // ms of asking after which parts say that they are being drawn
  const root = document.documentElement;
  if (root.dataset.here) history.replaceState(null, '', root.dataset.here);

  let paused = false, timer = 0, busy = false, notBefore = 0;
  const dirty = new Set();

  const parts = () => [...document.querySelectorAll('[data-live][id]')];
  const topics = () => [...new Set(parts().flatMap(part => part.dataset.live.split(/\s+/)).filter(Boolean))];
  // A topic is a list, `runs`, or one row of it, `run:7`. A hint names a list and the row that changed: none is about
  // what is in the list, `*` about many of its rows.
  const ROWS = {actions: 'action', approvals: 'action', bulk: 'bulk'};
  const rowOf = list => `${ROWS[list] || list.slice(0, -1)}:`;
  function listsOf(topic) {
    const [kind, ref] = topic.split(':'), lists = Object.keys(ROWS).filter(list => ROWS[list] === kind);
    return ref === undefined ? [topic] : lists.length ? lists : [`${kind}s`];
  }
  const isFor = (asked, list, id) => asked === list || (id === '*' ? asked.startsWith(rowOf(list)) : asked === rowOf(list) + id);
  const touch = (list, id) => parts().forEach(part => {
    if (!list || part.dataset.live.split(/\s+/).some(asked => isFor(asked, list, id))) dirty.add(part.id);
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
    const began = Date.now(), late = setTimeout(() => ids.forEach(id => document.getElementById(id)?.setAttribute('aria-busy', 'true')), LATE);
    try {
      const answer = await fetch(url, {headers: {'X-Parts': ids.join(' ')}, credentials: 'same-origin'});
      if (answer.status === 401 || answer.redirected) { if (Date.now() > leaving) location.reload(); return; }
      if (answer.status >= 500 || answer.status === 429) throw new Error(answer.status); // not now: it asks again
      if (answer.ok && url === location.href) show(new DOMParser().parseFromString(await answer.text(), 'text/html'), ids);
    } catch { ids.forEach(id => dirty.add(id)); setTimeout(schedule, 2000); return; } finally {
      busy = false;
      clearTimeout(late);
      parts().forEach(part => part.removeAttribute('aria-busy'));
      notBefore = Date.now() + Math.max(GAP, 2 * (Date.now() - began)); // a slow answer asks for patience
    }
    schedule();
  }

  function show(page, ids) {
    for (const id of ids) {
      const old = document.getElementById(id), fresh = page.getElementById(id);
      if (old && fresh) replace(old, fresh);
    }
    if (page.title) document.title = page.title;
    const icon = document.querySelector('link[rel=icon]'), next = page.querySelector('link[rel=icon]');
    if (icon && next && icon.getAttribute('href') !== next.getAttribute('href')) icon.href = next.getAttribute('href');
    document.dispatchEvent(new CustomEvent('nightdesk:refreshed'));
  }

  // ---- replace in place: what a person put into it (hold.js) stays, on the elements it is on ---------------------
  let pairs = new Map(); // an element as it is drawn now, and the one on the page that it must become
  const keyOf = node => {
    if (node.nodeType !== 1) return '';
    return node.dataset.key || node.getAttribute('id') || (node.nodeName === 'OPTION' ? `=${node.value}` : ''); // a form's `.id` may be a field
  };
  // A button, a field or a form becomes no other one: somebody may be about to press it.
  const told = node => node.nodeType === 1 && [node.type === 'checkbox' || node.type === 'radio' ? node.value : '',
    ...['action', 'name', 'type'].map(name => node.getAttribute(name))].join();
  const fits = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b) && told(a) === told(b);
  const isField = el => el.matches('textarea, select, input:not([type=hidden])');

  function tint(el) { // what changed in place shows for a moment that it did
    el.classList.remove('fresh');
    requestAnimationFrame(() => el.classList.add('fresh'));
  }

  function replace(part, fresh) {
    const held = window.hold.taken(part);
    pairs = window.hold.paired(held, part, fresh);
    morph(part, fresh);
    window.hold.putBack(held, part);
  }

  // Scripts of ours say these of an element; the server does not.
  const isOurs = (el, name) => name === 'open' && el.matches('details, dialog') || name === 'data-begun' || name === 'aria-busy';

  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== 1) { if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue; return; }
    if (old.dataset.version && old.dataset.version === fresh.dataset.version && old.dataset.key) return;
    if (old.hasAttribute('data-keep')) return;
    const isChosen = old.nodeName === 'SELECT' && window.hold.isTouched(old);
    if (isField(old) && (old === document.activeElement || !isChosen && window.hold.isTouched(old))) return;
    if (old.dataset.key && old.dataset.version && fresh.dataset.version) tint(old);
    for (const {name} of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !isOurs(old, name)) old.removeAttribute(name);
    }
    for (const {name, value} of fresh.attributes) {
      if (old.getAttribute(name) !== value && !isOurs(old, name)) old.setAttribute(name, value);
    }
    if (old.nodeName === 'TEXTAREA') old.defaultValue = fresh.defaultValue;
    if (old.nodeName === 'INPUT' && old.type !== 'file') { old.checked = fresh.checked; old.value = fresh.value; }
    else if (old.nodeName === 'TEXTAREA') old.value = fresh.value;
    else children(old, fresh);
    if (old.nodeName === 'SELECT' && !isChosen) [...old.options].forEach((one, place) => { one.selected = fresh.options[place].selected; });
  }

  // Somebody is in it, or it was sent: its answer finds its places on the page from where it stands.
  const isInUse = form => form.contains(document.activeElement) || form.matches('.htmx-request');

  function children(old, fresh) {
    const keyed = new Map([...old.children].filter(keyOf).map(node => [keyOf(node), node]));
    const calm = old.hasAttribute('data-calm') && !letIn.delete(old.id) && keyed.size && (old.matches(':hover') || old.contains(document.activeElement));
    const news = [...fresh.childNodes], theirs = new Set(news.map(keyOf));
    const kept = new Set([...pairs.values()].filter(node => node.parentNode === old));
    const held = calm ? news.filter(next => next.nodeType === 1 && next.hasAttribute('data-key') && !keyed.has(keyOf(next))).length : 0;
    const goes = node => !(node.nodeType === 1 && node.hasAttribute('data-keep') && isInUse(node)) && (!held || !keyOf(node));
    for (const [key, node] of keyed) if (!theirs.has(key) && goes(node)) node.remove(); // first, so that what stays need not move
    let at = old.firstChild;
    const drop = () => { const gone = at; at = at.nextSibling; if (goes(gone)) gone.remove(); };
    const follows = node => at && at.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    for (const one of news) {
      const key = keyOf(one), pair = kept.has(pairs.get(one)) ? pairs.get(one) : null;
      let mine = pair || (key ? keyed.get(key) : at && !keyOf(at) && !kept.has(at) ? at : null);
      if (mine && mine !== pair && !fits(mine, one)) mine = null;
      while (pair && follows(pair) && !kept.has(at) && !keyOf(at)) drop(); // what is in use stays where it is
      if (key && !mine && held && one.hasAttribute('data-key')) continue;
      if (mine) {
        kept.delete(mine);
        if (mine === at) at = at.nextSibling; else old.insertBefore(mine, at);
        morph(mine, one);
        keyed.delete(key);
      } else {
        const added = document.importNode(one, true);
        if (key && keyed.size && added.dataset.key) added.classList.add('fresh');
        old.insertBefore(added, at);
        window.htmx?.process(added.nodeType === 1 ? added : old);
      }
    }
    while (at) drop();
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

  function again(list, id) { touch(list, id); schedule(); }
  setInterval(() => again(), SWEEP);
  document.addEventListener('visibilitychange', schedule);

  window.nightdesk = {
    topics,
    listsOf,
    refresh: again,
    pause: yes => { paused = yes; schedule(); },
  };
})();
