// The JSON tree is drawn by the server as <details>; this adds search, open all, close all and copying a path.
(() => {
  'use strict';
  const LIMIT = 500; // marked hits; more would only slow the page

  const pathOf = leaf => {
    const names = [];
    for (let node = leaf.closest('[data-name]'); node; node = node.parentElement.closest('[data-name]')) names.unshift(node.dataset.name);
    return names.map((name, at) => /^\d+$/.test(name) ? `[${name}]` : at ? `.${name}` : name).join('');
  };

  function search(tree, text) {
    const wanted = text.trim().toLowerCase();
    tree.querySelectorAll('mark').forEach(mark => mark.replaceWith(...mark.childNodes));
    tree.normalize();
    if (!wanted) return 0;
    let hits = 0;
    for (const span of tree.querySelectorAll('.k, .s, .n, .l')) {
      if (!span.textContent.toLowerCase().includes(wanted)) continue;
      hits += 1;
      if (hits > LIMIT) continue;
      const mark = document.createElement('mark');
      mark.append(...span.childNodes);
      span.append(mark);
      for (let box = span.closest('details'); box; box = box.parentElement.closest('details')) box.open = true;
    }
    return hits;
  }

  function find(box) {
    const tree = document.getElementById(box.dataset.jsonSearch);
    const hits = search(tree, box.value);
    const count = box.parentElement.querySelector('[data-json-hits]');
    if (count) count.textContent = box.value.trim() ? say('{n} found', {n: hits}) : '';
    return tree.querySelector('mark');
  }
  document.addEventListener('input', event => {
    const box = event.target.closest('[data-json-search]');
    if (box) find(box)?.scrollIntoView({block: 'nearest'});
  });
  document.addEventListener('nightdesk:refreshed', () => document.querySelectorAll('[data-json-search]').forEach(box => box.value.trim() && find(box)));

  document.addEventListener('click', event => {
    const all = event.target.closest('[data-json-all]');
    if (all) document.getElementById(all.dataset.jsonAll).querySelectorAll('details').forEach(box => { box.open = all.value === 'open'; });
    const leaf = event.target.closest('.json .k');
    if (leaf && event.altKey) { event.preventDefault(); navigator.clipboard?.writeText(pathOf(leaf)); }
  });
})();
