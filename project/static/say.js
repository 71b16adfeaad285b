// Words of the scripts in the language of the page: what its list of words (templates/partials/words.html) has for the
// English, else the English. `{name}` is a slot: say('{n} s ago', {n: 7}).
(() => {
  'use strict';
  const known = new Map();
  document.querySelectorAll('#words dt').forEach(one => known.set(one.textContent, one.nextElementSibling.textContent));
  window.say = (text, facts = {}) => (known.get(text) || text).replace(/\{(\w+)\}/g, (slot, name) => facts[name] ?? slot);
})();
