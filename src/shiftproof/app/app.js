// Arrow keys and dragging set the sliders of a tab; the page reacts to the sliders.
window.shiftproof = (() => {
  const field = (tab, axis) => document.querySelector(`#${tab}-${axis} input[type=number]`);

  function set(tab, axis, wanted, wrap) {
    const number = field(tab, axis), range = document.querySelector(`#${tab}-${axis} input[type=range]`);
    if (!number || !range) return;
    const low = Number(range.min), high = Number(range.max), step = Number(range.step) || 1;
    let value = Math.round(wanted / step) * step;
    if (wrap) {
      const period = high - low + step;
      value = low + ((((value - low) % period) + period) % period);
    }
    value = Math.min(high, Math.max(low, value));
    if (Number(number.value) === value) return;
    number.value = value;
    number.dispatchEvent(new Event("input", { bubbles: true }));
  }

  const get = (tab, axis) => Number(field(tab, axis)?.value ?? 0);
  const wraps = (element) => element.querySelector(".movable")?.dataset.wrap === "1";
  const KEYS = { ArrowUp: ["rows", -1], ArrowDown: ["rows", 1], ArrowLeft: ["columns", -1], ArrowRight: ["columns", 1] };

  function stage(element, tab) {
    element.tabIndex = 0;
    element.setAttribute("role", "application");
    element.setAttribute("aria-label", "The picture. Arrow keys move it, with Shift by eight steps.");
    element.addEventListener("keydown", (event) => {
      const key = KEYS[event.key];
      if (!key || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const range = document.querySelector(`#${tab}-${key[0]} input[type=range]`);
      const step = (Number(range?.step) || 1) * (event.shiftKey ? 8 : 1);
      set(tab, key[0], get(tab, key[0]) + key[1] * step, wraps(element));
    });
    element.addEventListener("pointerdown", (event) => {
      const movable = event.target.closest(".movable");
      if (!movable || event.button !== 0) return;
      event.preventDefault();
      element.focus({ preventScroll: true });
      const pixel = movable.clientWidth / Number(movable.dataset.pixels), wrap = wraps(element);
      const start = { x: event.clientX, y: event.clientY, rows: get(tab, "rows"), columns: get(tab, "columns") };
      const move = (now) => {
        set(tab, "rows", start.rows + (now.clientY - start.y) / pixel, wrap);
        set(tab, "columns", start.columns + (now.clientX - start.x) / pixel, wrap);
      };
      const end = () => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", end);
        window.removeEventListener("pointercancel", end);
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", end);
      window.addEventListener("pointercancel", end);
    });
  }

  // a click on a heat map selects that shift
  document.addEventListener("click", (event) => {
    const map = event.target.closest?.(".map");
    if (!map) return;
    const box = map.getBoundingClientRect();
    for (const [axis, share] of [
      ["rows", (event.clientY - box.top) / box.height],
      ["columns", (event.clientX - box.left) / box.width],
    ]) {
      const [low, high] = map.dataset[axis].split(",").map(Number);
      const step = Number(document.querySelector(`#network-${axis} input[type=range]`)?.step) || 1;
      set("network", axis, low + Math.floor(share * ((high - low) / step + 1)) * step, false);
    }
  });

  return { stage };
})();
