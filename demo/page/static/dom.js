// Building elements. What comes from outside becomes text nodes and attributes, never markup.

let lastId = 0;

export function newId(start) {
  lastId += 1;
  return `${start}-${lastId}`;
}

/** `attributes`: strings are set as attributes, functions listen to the event of that name, null is left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Makes the container's children those of `items` ({key, sign, make}); what has kept its sign stays as it is. */
export function reconcile(container, items) {
  const old = new Map([...container.children].map((child) => [child.dataset.item, child]));
  let next = container.firstElementChild;
  for (const { key, sign, make } of items) {
    let child = old.get(key);
    old.delete(key);
    if (!child || child.sign !== sign) {
      const fresh = make();
      fresh.dataset.item = key;
      fresh.sign = sign;
      if (child) {
        if (next === child) next = fresh;
        replace(child, fresh);
        fresh.classList.add("changed");
      }
      child = fresh;
    }
    if (child === next) next = next.nextElementSibling;
    else container.insertBefore(child, next);
  }
  for (const gone of old.values()) gone.remove();
}

/** Whoever had the focus on something in the old element has it on the same thing in the new one. */
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.closest("[data-key]")?.dataset.key;
  old.replaceWith(fresh);
  if (focused) (byKey(key) ?? fresh).focus();
}

export function byKey(key) {
  return key ? document.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
}
