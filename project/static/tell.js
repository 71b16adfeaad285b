// What a person is told who does not look: the number in the tab's title, a sentence for screen readers at most every
// ten seconds, and, for whoever switched it on, a short tone when another approval waits.
(() => {
  'use strict';
  const QUIET = 10000; // ms between two sentences
  const place = document.querySelector('[data-announce]');
  if (!place) return;
  const waiting = () => Number(/^\((\d+)\)/.exec(document.title)?.[1] || 0);
  const high = () => Number(document.getElementById('rail')?.dataset.high || 0);
  let known = waiting(), risky = high(), told = 0, timer = 0, more = 0, risk = '';

  function tell() {
    timer = 0;
    told = Date.now();
    place.textContent = say('{n} new approval{s}{risk}, {known} waiting', {n: more, s: more === 1 ? '' : 's', risk, known});
    more = 0;
    risk = '';
  }

  function tone() {
    const sound = new AudioContext(), voice = sound.createOscillator(), loud = sound.createGain();
    voice.frequency.value = 660;
    loud.gain.setValueAtTime(0.08, sound.currentTime);
    loud.gain.exponentialRampToValueAtTime(0.001, sound.currentTime + 0.4);
    voice.connect(loud).connect(sound.destination);
    voice.start();
    voice.stop(sound.currentTime + 0.4);
    voice.onended = () => sound.close();
  }

  document.addEventListener('nightdesk:refreshed', () => {
    const count = waiting();
    if (count > known) {
      more += count - known;
      if (high() > risky) risk = say(', high risk');
      timer ||= setTimeout(tell, Math.max(0, told + QUIET - Date.now()));
      if (document.documentElement.dataset.sound === 'on') tone();
    }
    known = count;
    risky = high();
  });
})();
