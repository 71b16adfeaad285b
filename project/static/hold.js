// What a person put into a part of the page: typed, ticked, chosen, opened, scrolled, and where the focus is. None of it
// stands in the text the server draws, so parts.js asks here which elements must stay, and has the rest put back.
(() => {
  'use strict';
  const FIELDS = 'input:not([type=hidden]), textarea, select';
  const isTick = el => el.type === 'checkbox' || el.type === 'radio';
  const folded = new WeakSet(), scrolled = new Set();
  document.addEventListener('toggle', ({target}) => folded.add(target), true);
  document.addEventListener('scroll', ({target}) => { if (target.nodeType === 1) scrolled.add(target); }, true);

  // Whether it holds what the server did not put there. A list without a choice of the server's shows its first line:
  // that is what one sees and means.
  function isTouched(el) {
    if (el.nodeName === 'DETAILS') return folded.has(el);
    if (el.nodeName === 'SELECT') {
      const options = [...el.options];
      return options.some(one => one.selected !== one.defaultSelected);
    }
    if (el.type === 'radio' && el.name) return groupOf(el).some(one => one.checked !== one.defaultChecked);
    return isTick(el) ? el.checked !== el.defaultChecked : el.value !== el.defaultValue;
  }
  const groupOf = el => [...(el.form || document).querySelectorAll('input[type=radio]')].filter(one => one.name === el.name);

  // ---- the same element in another drawing: by its names, then by its words, then by its place among those alike -------
  const is = (el, name) => el.getAttribute(name) || '';
  const signOf = el => [el.nodeName, is(el, 'id'), is(el, 'name'), is(el, 'type'), isTick(el) || el.nodeName === 'BUTTON' ? el.value : '',
    is(el, 'href'), is(el.form || el, 'action'), el.matches(`${FIELDS}, a, button, details`) ? '' : el.className,
    el.closest('[data-key]')?.dataset.key || ''].join('\n');
  const wordsOf = el => el.matches(FIELDS) ? null : (el.nodeName === 'DETAILS' ? el.querySelector('summary') : el)?.textContent;

  function listed(root, selector) {
    const found = new Map();
    for (const el of root.querySelectorAll(selector)) {
      const sign = signOf(el);
      found.get(sign)?.push(el) || found.set(sign, [el]);
    }
    return found;
  }

  function twinOf(held, there) {
    const alike = there.get(held.sign) || [];
    return (held.words && alike.find(one => wordsOf(one) === held.words)) || alike[held.place];
  }

  // What is in use within `part`, as it is now.
  function taken(part) {
    for (const el of scrolled) if (!el.isConnected) scrolled.delete(el);
    const active = part.contains(document.activeElement) && document.activeElement !== part ? document.activeElement : null;
    const moved = [...scrolled].filter(el => part.contains(el) && (el.scrollTop || el.scrollLeft));
    const selector = [FIELDS, 'details', ...new Set([active, ...moved].filter(Boolean).map(el => el.localName))].join();
    const here = listed(part, selector), all = [];
    for (const [sign, alike] of here) alike.forEach((el, place) => {
      const touched = el.matches(`${FIELDS}, details`) && isTouched(el), isActive = el === active;
      if (!touched && !isActive && !moved.includes(el)) return;
      const [start, end] = isActive && el.matches('textarea, input') ? [el.selectionStart, el.selectionEnd] : [null, null];
      all.push({el, sign, place, touched, isActive, start, end, words: wordsOf(el), value: el.value, checked: el.checked, open: el.open,
        chosen: touched && el.options ? [...el.selectedOptions] : [], top: el.scrollTop, left: el.scrollLeft});
    });
    return {all, selector};
  }

  // Which element of `fresh` each of them becomes: it and all around it, as far as both drawings are built alike.
  function paired({all, selector}, part, fresh) {
    const pairs = new Map(), there = all.length ? listed(fresh, selector) : null;
    for (const held of all) {
      const way = [];
      let a = held.el, b = twinOf(held, there);
      while (a && b && a !== part && b !== fresh && a.nodeName === b.nodeName) { way.push([b, a]); a = a.parentElement; b = b.parentElement; }
      if (a === part && b === fresh && way.every(([to, from]) => (pairs.get(to) || from) === from)) way.forEach(([to, from]) => pairs.set(to, from));
    }
    return pairs;
  }

  // After the part was drawn: what is still there has all it had; what had to be made anew is given it.
  function putBack({all, selector}, part) {
    const there = all.some(held => !held.el.isConnected) ? listed(part, selector) : null;
    for (const held of all) {
      const el = held.el.isConnected ? held.el : twinOf(held, there);
      if (!el) continue;
      if (held.touched) fill(el, held);
      if (held.isActive && document.activeElement !== el) {
        el.focus({preventScroll: true});
        if (held.start !== null) el.setSelectionRange(held.start, held.end);
      }
      if (el.scrollTop !== held.top) el.scrollTop = held.top;
      if (el.scrollLeft !== held.left) el.scrollLeft = held.left;
    }
  }

  function fill(el, {value, checked, open, chosen}) {
    if (el.nodeName === 'DETAILS') el.open = open;
    else if (el.nodeName === 'SELECT') {
      for (const one of chosen) if (![...el.options].some(other => other.value === one.value)) el.append(one); // it was chosen
      const values = chosen.map(one => one.value);
      for (const one of el.options) one.selected = values.includes(one.value);
    } else if (isTick(el)) { if (el.checked !== checked) el.checked = checked; }
    else if (el.type !== 'file' && el.value !== value) el.value = value;
  }

  window.hold = {taken, paired, putBack, isTouched};
})();
