// Small behaviours found by data attribute: copy, menus, filters, busy buttons, dialogs, pause.
(() => {
  'use strict';
  const every = (selector, act, within = document) => within.querySelectorAll(selector).forEach(act);

  // ---- a verdict is about what was seen: its buttons rest while their card was not on the screen for a second -----
  const SEEN = 1000; // ms
  const since = new WeakMap();
  function rest() {
    every('[data-careful]', button => {
      if (since.has(button)) return;
      since.set(button, Date.now());
      button.setAttribute('aria-disabled', 'true');
      setTimeout(() => button.removeAttribute('aria-disabled'), SEEN);
    });
  }
  rest();
  ['htmx:afterSwap', 'htmx:afterSettle', 'nightdesk:refreshed'].forEach(name => document.addEventListener(name, rest));
  document.addEventListener('click', event => {
    const button = event.target.closest?.('[data-careful]');
    if (!button) return;
    rest();
    if (Date.now() - since.get(button) < SEEN) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);

  // ---- copy -------------------------------------------------------------------------------------------------------
  // Marked code points are copied as the characters they stand for.
  function exact(id) {
    const copied = document.getElementById(id)?.cloneNode(true);
    if (!copied) return '';
    every('.odd', mark => mark.replaceWith(String.fromCodePoint(parseInt(mark.textContent.slice(2), 16))), copied);
    return copied.value || copied.textContent;  // a field has a value
  }

  async function copy(button) {
    const text = button.dataset.copy || exact(button.dataset.copyFrom);
    const label = button.querySelector('[data-label]') || button;
    const before = label.textContent;
    try { await navigator.clipboard.writeText(text); label.textContent = say('Copied'); } catch { label.textContent = say('Press Ctrl C'); select(button); }
    setTimeout(() => { label.textContent = before; }, 1600);
  }

  function select(button) {
    const from = document.getElementById(button.dataset.copyFrom);
    if (from) getSelection().selectAllChildren(from);
  }

  document.addEventListener('click', event => {
    const hit = selector => event.target.closest?.(selector);
    const button = hit('[data-copy], [data-copy-from]');
    if (button) copy(button);
    const opener = hit('[data-dialog]');
    if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
    if (hit('[data-close]')) hit('dialog')?.close();
    if (hit('[data-retry]')) window.nightdesk?.retry();
    const pause = hit('[data-pause]');
    if (pause) {
      const on = pause.getAttribute('aria-pressed') !== 'true';
      every('[data-pause]', one => one.setAttribute('aria-pressed', String(on)));
      document.documentElement.toggleAttribute('data-paused', on);
      window.nightdesk?.pause(on);
    }
    every('details.menu[open]', menu => { if (!menu.contains(event.target)) menu.open = false; });
  });
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') every('details.menu[open]', menu => { menu.open = false; menu.querySelector('summary').focus(); });
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && event.target.form) send(event.target);
  });

  // ---- a note goes with the verdict it was begun for (data-begun of its form) and with no other ------------------------
  const verdict = (form, value) => form.querySelector(`button[name=verdict][value="${CSS.escape(value)}"]`);
  function complain(field, text) { field.setCustomValidity(text); field.reportValidity(); }

  function send(field) {
    const {form} = field, isNote = field.name === 'reason';
    if (!form.querySelector('button[name=verdict]')) return form.requestSubmit();
    const meant = verdict(form, form.dataset.begun || (isNote ? '' : 'approve'));
    if (meant) meant.click(); else complain(field, say('Press the button you mean: a note goes with either.'));
  }

  document.addEventListener('click', event => {
    const button = event.target.closest?.('button[name=verdict]'), note = button?.form?.elements.reason;
    if (!note) return;
    note.setCustomValidity('');
    const {begun} = button.form.dataset;
    if (!begun || begun === button.value || !note.value.trim()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    complain(note, say('This note was written for another verdict. Empty it first.'));
  }, true);
  document.addEventListener('input', event => {
    const {form, name, value} = event.target;
    if (name === 'reason' && !value.trim()) delete form?.dataset.begun;
  });

  // ---- forms: a note that is needed, a button pressed once, a select that filters at once -------------------------
  document.addEventListener('click', event => {
    const button = event.target.closest?.('button[data-needs]');
    const field = button?.form?.elements[button.dataset.needs];
    if (field) { field.required = true; button.form.dataset.begun = button.value; if (!field.value.trim()) field.setCustomValidity(say('Write a note first: the handler reads it.')); }
  }, true);
  document.addEventListener('input', event => event.target.setCustomValidity?.(''));
  document.addEventListener('click', event => {
    const button = event.target.closest?.('button[type=submit], button:not([type])');
    if (button?.form && !button.dataset.needs) every('[required][data-if-asked]', field => { field.required = false; field.setCustomValidity(''); }, button.form);
  }, true);
  document.addEventListener('submit', event => {
    const button = event.submitter;
    if (!button || event.defaultPrevented) return;
    setTimeout(() => { button.setAttribute('aria-busy', 'true'); if (button.dataset.busy) button.lastChild.textContent = button.dataset.busy; });
    setTimeout(() => button.removeAttribute('aria-busy'), 8000);
  });
  document.addEventListener('change', event => { if (event.target.matches('[data-submits]')) event.target.form.requestSubmit(); });

  // ---- rows that are chosen: how many --------------------------------------------------------------------------------
  const chosen = () => every('[data-chosen]', el => {
    el.textContent = say('{n} chosen', {n: document.querySelectorAll('[data-choose]:checked').length});
  });
  document.addEventListener('change', event => { if (event.target.matches('[data-choose]')) chosen(); });
  document.addEventListener('reset', () => setTimeout(chosen));
  document.addEventListener('nightdesk:refreshed', chosen);

  // On a phone a row opens its own page, so the part that would be swapped is not asked for.
  document.addEventListener('htmx:beforeRequest', event => {
    const {elt} = event.detail;
    if (elt.matches('a[data-page-on-phone]') && matchMedia('(max-width: 719px)').matches) { event.preventDefault(); location.assign(elt.href); }
  });
  document.addEventListener('htmx:responseError', event => {
    if (event.detail.xhr.status >= 500) document.querySelectorAll('[data-failed]').forEach(el => { el.hidden = false; });
  });
  document.addEventListener('htmx:sendError', () => document.querySelectorAll('[data-failed]').forEach(el => { el.hidden = false; }));
})();
